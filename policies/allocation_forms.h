// The parameter `forms` of allocation policies: the forms that get memory at all.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/base/config_value.h"
#include "core/base/names.h"
#include "core/engine/policy.h"

namespace batchflow::policies {

inline constexpr Parameter kFormsParameter{"forms", Parameter::Type::text,
                                           "encoded+decoded+prepared",
                                           "the forms that are kept, joined by '+'; others get "
                                           "what was promised to jobs, and what workers "
                                           "of single jobs fill ahead"};

class KeptForms {
 public:
  explicit KeptForms(std::string_view text) {
    while (!text.empty()) {
      const std::string_view name = text.substr(0, text.find('+'));
      text.remove_prefix(name.size() == text.size() ? name.size() : name.size() + 1);
      bool known = false;
      for (std::size_t form = 0; form < kForms; ++form) {
        if (name_of(static_cast<Form>(form)) != name) continue;
        kept_[form] = known = true;
      }
      if (!known) {
        throw ConfigError("parameter 'forms': there is no form '" +
                          std::string(name.substr(0, 40)) +
                          "'; write encoded, decoded and prepared, joined by '+'");
      }
    }
  }

  bool keeps(const engine::ShareView& share) const {
    return share.jobs > 0 && kept_[static_cast<std::size_t>(share.form)];
  }

  // Gives shares of the other forms what workers of single jobs fill ahead, beside what they were
  // promised. Returns what is left of the place.
  Bytes serve_others(const engine::PlaceView& place, std::span<Slots> slots) const {
    Bytes left = place.capacity_bytes;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (keeps(share) || share.slots_ahead == 0) continue;
      const Slots room = left / share.slot_bytes;
      slots[i] = share.slots_least + std::min(share.slots_ahead, UINT64_MAX - share.slots_least);
      slots[i] = std::min(slots[i], room);
      left -= slots[i] * share.slot_bytes;
    }
    return left;
  }

 private:
  std::array<bool, kForms> kept_{};
};

}  // namespace batchflow::policies
