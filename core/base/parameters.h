// The parameters of a policy: declared with defaults and help beside the policy, checked when set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace batchflow {

// One parameter that a policy declares. The text of a default does not decide the type: `type`
// does, and a text that is not of that type is refused when it is set.
struct Parameter {
  enum class Type : std::uint8_t { integer, number, flag, text };
  std::string_view name;
  Type type = Type::number;
  std::string_view default_value;
  std::string_view help;
  double least = 0;  // for integer and number
  double greatest = 1e18;
};

// The declared parameters of one policy, with their present values. `set` checks a value. The
// functions that read values are all in this header, since plugins call them without linking
// anything.
class Parameters {
 public:
  struct Value {
    std::string text;
    std::int64_t integer = 0;  // of an integer
    double number = 0;         // of an integer or a number
    bool flag = false;         // of a flag
  };

  explicit Parameters(std::span<const Parameter> declared);
  // REQUIRES: values of these types, one for each that is declared
  Parameters(std::span<const Parameter> declared, std::vector<Value> values)
      : declared_(declared), values_(std::move(values)) {}

  // Throws ConfigError when the policy has no such parameter (it names the nearest one), or when
  // the value is not of its type or is outside its bounds.
  void set(std::string_view name, std::string_view value);

  // REQUIRES: `name` is declared with that type.
  std::int64_t integer(std::string_view name) const {
    return typed_value(name, Parameter::Type::integer).integer;
  }
  double number(std::string_view name) const {
    return typed_value(name, Parameter::Type::number).number;
  }
  bool flag(std::string_view name) const { return typed_value(name, Parameter::Type::flag).flag; }
  const std::string& text(std::string_view name) const {
    return typed_value(name, Parameter::Type::text).text;
  }

  std::span<const Parameter> declared() const { return declared_; }
  std::span<const Value> values() const { return values_; }  // as declared
  const std::string& value(std::string_view name) const { return values_[index_of(name)].text; }

 private:
  // REQUIRES: `name` is declared
  std::size_t index_of(std::string_view name) const {
    for (std::size_t i = 0; i < declared_.size(); ++i) {
      if (declared_[i].name == name) return i;
    }
    check_failed("declared", __FILE__, __LINE__,
                 "a policy asked for a parameter it does not declare");
  }
  const Value& typed_value(std::string_view name, Parameter::Type type) const {
    const std::size_t index = index_of(name);
    BF_CHECK_MSG(declared_[index].type == type, "a policy's parameter is of another type");
    return values_[index];
  }

  std::span<const Parameter> declared_;
  std::vector<Value> values_;
};

}  // namespace batchflow
