// The parameter `forms` of allocation policies: which forms they give memory to at all.
#pragma once

#include <array>
#include <string_view>

#include "core/config_error.h"
#include "core/policy.h"

namespace batchflow {

inline constexpr Parameter kFormsParameter{
    "forms", Parameter::Type::text, "encoded+decoded+prepared",
    "the forms that are kept, joined by '+'; others get what was promised to jobs, and no more"};

class KeptForms {
 public:
  explicit KeptForms(std::string_view text) {
    constexpr std::array<std::string_view, kForms> kNames{"encoded", "decoded", "prepared"};
    while (!text.empty()) {
      const std::string_view name = text.substr(0, text.find('+'));
      text.remove_prefix(name.size() == text.size() ? name.size() : name.size() + 1);
      bool known = false;
      for (std::size_t form = 0; form < kForms; ++form) {
        if (kNames[form] != name) continue;
        kept_[form] = known = true;
      }
      if (!known) {
        throw ConfigError("parameter 'forms': there is no form '" +
                          std::string(name.substr(0, 40)) +
                          "'; write encoded, decoded and prepared, joined by '+'");
      }
    }
  }

  bool keeps(const ShareView& share) const {
    return share.jobs > 0 && kept_[static_cast<std::size_t>(share.form)];
  }

 private:
  std::array<bool, kForms> kept_{};
};

}  // namespace batchflow
