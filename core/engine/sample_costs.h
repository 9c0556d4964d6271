// What a sample of a stream costs a worker, by the form that it is made from.
//
// A worker reports how long it took for a part of a block, in which so many samples were made from
// what is stored and so many from what is kept decoded. A Kalman filter follows the two costs from
// these reports. Where parts differ little in what they are made of, it keeps to what it knew, and
// moves only the cost that explains what was measured. It uses the four basic operations alone, so
// that it has the same bits on every machine.
#pragma once

namespace batchflow::engine {

class SampleCosts {
 public:
  // A part took this long. REQUIRES: encoded + decoded > 0, seconds >= 0
  void add(double encoded, double decoded, double seconds);

  bool measured() const { return encoded_s_ > 0; }
  // Of a sample as it is stored; 0 before the first part.
  double encoded_s() const { return encoded_s_; }
  // Of a sample that is kept decoded. Before the first of these, half of the other cost is assumed.
  double decoded_s() const { return decoded_s_; }

 private:
  double encoded_s_ = 0;
  double decoded_s_ = 0;
  // How uncertain they are: variances and their covariance.
  double encoded_var_ = 0;
  double decoded_var_ = 0;
  double covariance_ = 0;
};

}  // namespace batchflow::engine
