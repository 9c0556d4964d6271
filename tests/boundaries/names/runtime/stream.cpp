namespace batchflow::engine {

// Taken for the other one in a program that links both.
class Stream final {
 public:
  ~Stream() {}
};

namespace {

struct Delivery {  // of this file alone
  const char* text = "class Stream {";
};

}  // namespace
}  // namespace batchflow::engine

namespace batchflow::remote {

class Stream {};  // has a name of its own

}  // namespace batchflow::remote
