// A file descriptor that is closed when its owner is destroyed.
#pragma once

#include <unistd.h>

#include <utility>

namespace batchflow::protocol {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset() { Descriptor gone(std::move(*this)); }

 private:
  int number_ = -1;
};

}  // namespace batchflow::protocol
