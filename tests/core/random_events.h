// Events, commands and steps with random contents, of every kind there is.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "core/base/arena.h"
#include "core/base/random.h"
#include "core/engine/event_fields.h"
#include "core/order/position_json.h"

namespace batchflow::test {

// The values that it makes live as long as it does.
class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(hash(seed)) {}

  // The alternative of that index, all fields random.
  template <class Variant>
  Variant make(std::size_t index) {
    return make_at<Variant>(index);
  }
  std::vector<engine::Event> events(std::size_t count) {
    std::vector<engine::Event> list;
    for (std::size_t i = 0; i < count; ++i) {
      list.push_back(make<engine::Event>(random_.below(std::variant_size_v<engine::Event>)));
    }
    return list;
  }
  Random& random() { return random_; }

  template <class T>
  void operator()(std::string_view /*name*/, T& field) {
    fill(field);
  }

 private:
  template <class Variant, std::size_t at = 0>
  Variant make_at(std::size_t index) {
    if constexpr (at + 1 < std::variant_size_v<Variant>) {
      if (index != at) return make_at<Variant, at + 1>(index);
    }
    std::variant_alternative_t<at, Variant> value{};
    fill(value);
    return value;
  }

  // Small, large and the greatest numbers alike.
  std::uint64_t number() {
    if (random_.below(8) == 0) return UINT64_MAX - random_.below(3);
    return random_.draw() >> random_.below(64);
  }

  template <class T>
  void fill(T& field) {
    if constexpr (is_id<T>) {
      field.value = static_cast<decltype(field.value)>(number());
    } else if constexpr (is_list<T>) {
      fill_list(field);
    } else if constexpr (std::is_same_v<T, bool>) {
      field = random_.below(2) == 0;
    } else if constexpr (std::is_enum_v<T>) {
      field = static_cast<T>(random_.below(3));
    } else if constexpr (std::is_integral_v<T>) {
      field = static_cast<T>(number());
    } else if constexpr (std::is_floating_point_v<T>) {
      field = static_cast<T>(random_.unit() * 1e6 - 5e5);
    } else if constexpr (std::is_same_v<T, Duration>) {
      field = Duration(static_cast<std::int64_t>(number()));
    } else if constexpr (std::is_same_v<T, Instant>) {
      field = Instant(Duration(static_cast<std::int64_t>(number())));
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      auto text = arena_.make<char>(random_.below(30));
      for (char& c : text) c = static_cast<char>(random_.below(256));
      field = {text.data(), text.size()};
    } else if constexpr (std::is_same_v<T, const order::Position*>) {
      field = random_.below(2)
                  ? &positions_.emplace_back(Order::strict, random_.draw(), 1 + random_.below(1000),
                                             number(), static_cast<std::uint32_t>(number()))
                  : nullptr;
    } else {
      for_each_field(field, *this);
    }
  }

  template <class T>
  void fill_list(std::span<const T>& list) {
    const auto values = arena_.make<T>(random_.below(4) == 0 ? 0 : random_.below(20));
    for (T& value : values) fill(value);
    list = values;
  }

  Random random_;
  Arena arena_;
  std::deque<order::Position> positions_;
};

// Whether two values have equal fields; lists by their entries, positions by their bytes.
struct SameFields {
  template <class T>
  static bool same(const T& a, const T& b) {
    std::string text_a, text_b;
    append(a, text_a);
    append(b, text_b);
    return text_a == text_b;
  }

 private:
  template <class T>
  static void append(const T& field, std::string& text) {
    if constexpr (is_list<T>) {
      text += std::to_string(field.size()) + ":";
      for (const auto& entry : field) append(entry, text);
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      text += std::to_string(field.size()) + ":" + std::string(field);
    } else if constexpr (std::is_same_v<T, const order::Position*>) {
      text += field ? order::to_json(*field) : "none";
    } else if constexpr (std::is_class_v<T> && !is_id<T> && !std::is_same_v<T, Duration> &&
                         !std::is_same_v<T, Instant>) {
      for_each_field(field, [&](std::string_view, const auto& inner) { append(inner, text); });
    } else {
      text.append(reinterpret_cast<const char*>(&field), sizeof(field));
    }
  }
};

template <class Variant>
bool same(const Variant& a, const Variant& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& fields) {
        return SameFields::same(fields, std::get<std::decay_t<decltype(fields)>>(b));
      },
      a);
}

}  // namespace batchflow::test
