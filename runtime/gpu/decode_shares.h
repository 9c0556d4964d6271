// Which picture is decoded in which way, when several ways decode at once: on the CPU, on the GPU's
// cores, by its decoder engines.
//
// Each picture goes to the way that will have it done first in 99 of 100 cases. That time is the
// sum of two. One is when the way is expected to be done, by what waits there and how fast it has
// been of late. The other is by how much its pictures came later than expected, at the 99th
// percentile. So a batch ends in all ways at about the same time, and a way with slow pictures has
// a smaller share than its mean rate would give it.
//
// It reads no clock and has no thread: the caller tells it how long things took.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace batchflow::gpu {

enum class JpegWay : std::uint8_t {
  cpu,           // all on the CPU, and copied
  host_huffman,  // codes on the CPU, the rest on the GPU's cores
  cuda,          // all on the GPU's cores, many pictures at once
  hardware,      // by the GPU's decoder engines
};
inline constexpr std::size_t kJpegWays = 4;
const char* name_of(JpegWay way);

// A set of ways.
using JpegWays = std::uint8_t;
constexpr JpegWays only(JpegWay way) {
  return static_cast<JpegWays>(1u << static_cast<unsigned>(way));
}
inline constexpr JpegWays kEveryJpegWay = (1u << kJpegWays) - 1;
constexpr bool has(JpegWays ways, JpegWay way) {
  return (ways & only(way)) != 0;
}

class DecodeShares {
 public:
  struct Way {
    unsigned lanes = 0;       // how many decode at once; 0: there is no such way
    double ns_each_unit = 1;  // of one lane; a guess, until pictures have been decoded
  };
  struct Choice {
    JpegWay way;
    std::int64_t expected_ns;  // until the picture is done
  };

  // `hardware_share`: of the pictures that may go to the decoder engines, this part does, whatever
  // is measured.
  explicit DecodeShares(const std::array<Way, kJpegWays>& ways,
                        std::optional<double> hardware_share = {});

  // Work is counted in units: the pixels and the bytes of a picture.
  // REQUIRES: `allowed` has a way with a lane
  Choice choose(std::uint64_t units, JpegWays allowed);
  // Another way takes the picture over, before it has been decoded.
  Choice move(const Choice& from, JpegWay to, std::uint64_t units);

  // One lane was busy for so long with so many pictures and units.
  void served(JpegWay way, std::size_t pictures, std::uint64_t units, std::int64_t busy_ns);
  // A picture is done; `latency_ns` since it was chosen. One that failed says nothing about times.
  void finished(const Choice& choice, std::uint64_t units, std::int64_t latency_ns);
  void failed(const Choice& choice, std::uint64_t units);

  bool is_there(JpegWay way) const { return state_of(way).lanes > 0; }
  // Whether pictures may move from a way to another that has nothing to do.
  bool may_take_over() const { return !hardware_share_; }
  double waiting_ns(JpegWay way) const;
  double cost_ns(JpegWay way, std::uint64_t units) const;
  // By how much its pictures are later than expected, at the 99th percentile.
  double late_ns(JpegWay way) const { return state_of(way).late_ns; }
  std::uint64_t chosen(JpegWay way) const { return state_of(way).chosen; }

 private:
  // How late a way's pictures are follows from the last kWindow of them. It is worked out anew
  // after each kPeriod more.
  static constexpr std::size_t kWindow = 1024;
  static constexpr std::uint64_t kPeriod = 64;
  // A way that got none of the last so many pictures of all ways forgets little by little how late
  // it was.
  static constexpr std::uint64_t kUnused = 256;
  // A way that is not chosen any more is tried again after so many pictures. These are more than a
  // hundred batches, so that a slow way does not show in the 99th percentile.
  static constexpr std::uint64_t kTrial = 1 << 16;

  struct State {
    unsigned lanes = 0;
    double ns_each_unit = 1;
    double late_ns = 0;
    double busy_ns = 0, served_units = 0;  // of late
    std::uint64_t waiting_units = 0;
    std::uint64_t chosen = 0, last_chosen = 0;
    std::vector<std::int64_t> later_ns;  // than expected: a ring
    std::size_t finished = 0;
    bool used = false;  // of late
  };

  const State& state_of(JpegWay way) const { return ways_[static_cast<std::size_t>(way)]; }
  State& state_of(JpegWay way) { return ways_[static_cast<std::size_t>(way)]; }
  double expected_ns(const State& way, std::uint64_t units) const;
  JpegWays fixed_share(JpegWays allowed);
  Choice take(JpegWay way, std::uint64_t units);
  void forget_unused();

  std::array<State, kJpegWays> ways_;
  std::optional<double> hardware_share_;
  double hardware_due_ = 0;
  std::uint64_t choices_ = 0, finished_ = 0;
};

}  // namespace batchflow::gpu
