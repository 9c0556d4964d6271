#include "runtime/prepare/numbers.h"

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/base/check.h"

namespace batchflow::prepare {
namespace {

struct Half {
  std::uint16_t bits;
  explicit operator float() const {
    const int sign = bits >> 15, exponent = (bits >> 10) & 31;
    const std::uint32_t fraction = bits & 1023u;
    std::uint32_t result = static_cast<std::uint32_t>(sign) << 31;
    if (exponent == 31) {
      result |= 0x7f800000u | fraction << 13;
    } else if (exponent != 0) {
      result |= static_cast<std::uint32_t>(exponent + 112) << 23 | fraction << 13;
    } else {
      const float small = static_cast<float>(fraction) * 0x1.0p-24f;
      return sign != 0 ? -small : small;
    }
    return std::bit_cast<float>(result);
  }
  static Half from(float value) { return {to_f16(value)}; }
};

struct Brain {
  std::uint16_t bits;
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static Brain from(float value) { return {to_bf16(value)}; }
};

template <class T>
inline constexpr bool kShort = std::is_same_v<T, Half> || std::is_same_v<T, Brain>;
template <class T>
inline constexpr bool kReal = kShort<T> || std::is_floating_point_v<T>;

template <class From, class To>
constexpr bool fits() {
  if constexpr (kReal<To>)
    return true;
  else if constexpr (kReal<From>)
    return false;
  else
    return std::in_range<To>(std::numeric_limits<From>::min()) &&
           std::in_range<To>(std::numeric_limits<From>::max());
}

template <class From, class To>
To converted(From value) {
  if constexpr (kShort<From>)
    return converted<float, To>(static_cast<float>(value));
  else if constexpr (kShort<To>)
    return To::from(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

// Calls `use` with a value of the type that `type` names.
template <class Use>
auto with_type(batch::ElementType type, Use&& use) {
  switch (type) {
    case batch::ElementType::u8:
      return use(std::uint8_t{});
    case batch::ElementType::i8:
      return use(std::int8_t{});
    case batch::ElementType::u16:
      return use(std::uint16_t{});
    case batch::ElementType::i16:
      return use(std::int16_t{});
    case batch::ElementType::i32:
      return use(std::int32_t{});
    case batch::ElementType::i64:
      return use(std::int64_t{});
    case batch::ElementType::f16:
      return use(Half{});
    case batch::ElementType::bf16:
      return use(Brain{});
    case batch::ElementType::f32:
      return use(float{});
    case batch::ElementType::f64:
      break;
  }
  return use(double{});
}

}  // namespace

bool converts(batch::ElementType from, batch::ElementType to) {
  return with_type(from, [to](auto in) {
    return with_type(to, [](auto out) { return fits<decltype(in), decltype(out)>(); });
  });
}

void convert(batch::ElementType from, const std::byte* in, batch::ElementType to, std::byte* out,
             std::uint64_t count) {
  if (count == 0) return;  // of which there may be no address
  if (from == to) {
    std::memcpy(out, in, count * batch::element_bytes(from));
    return;
  }
  with_type(from, [&](auto source) {
    with_type(to, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      BF_CHECK((fits<From, To>()));
      if constexpr (fits<From, To>()) {
        for (std::uint64_t i = 0; i < count; ++i) {
          std::memcpy(&source, in + i * sizeof(From), sizeof(From));
          target = converted<From, To>(source);
          std::memcpy(out + i * sizeof(To), &target, sizeof(To));
        }
      }
    });
  });
}

void write_integer(std::int64_t value, batch::ElementType type, std::byte* out) {
  with_type(type, [&](auto target) {
    target = converted<std::int64_t, decltype(target)>(value);
    std::memcpy(out, &target, sizeof target);
  });
}

}  // namespace batchflow::prepare
