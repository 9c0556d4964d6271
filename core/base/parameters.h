// The parameters of a policy: declared with defaults and help beside the policy, checked when set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// The declared parameters of one policy, with their present values. `set` checks a value.
class Parameters {
 public:
  explicit Parameters(std::span<const Parameter> declared);

  // Throws ConfigError when the policy has no such parameter (it names the nearest one), or when
  // the value is not of its type or is outside its bounds.
  void set(std::string_view name, std::string_view value);

  // REQUIRES: `name` is declared with that type.
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;

  std::span<const Parameter> declared() const { return declared_; }
  const std::string& value(std::string_view name) const;

 private:
  std::span<const Parameter> declared_;
  std::vector<std::string> values_;
};

}  // namespace batchflow
