#pragma once

namespace batchflow::engine {

class Stream;  // declared before

class Stream {
 public:
  ~Stream() {}
};

struct Delivery {
  int of = 0;
};

}  // namespace batchflow::engine
