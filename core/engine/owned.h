// Values that all parts of the engine read, and only their owners change.
#pragma once

#include <concepts>
#include <cstdint>

namespace batchflow::engine {

// T is a pool or a vector.
template <class T, class... Owners>
class Owned {
 public:
  template <class Index>
  const auto& operator[](Index index) const {
    return value_[index];
  }
  template <class Index>
  bool live(Index index) const {
    return value_.live(index);
  }
  template <class Is>
  bool any(Is is) const {
    return value_.any(is);
  }
  template <class Visit>
  void each(Visit visit) const {
    value_.each(visit);
  }
  std::uint32_t size() const { return static_cast<std::uint32_t>(value_.size()); }

  // For `this` of an owner.
  template <class Owner>
  requires(std::same_as<Owner, Owners> || ...) T& writable_for(const Owner*) { return value_; }

 private:
  T value_;
};

}  // namespace batchflow::engine
