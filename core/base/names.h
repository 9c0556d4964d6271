// Names of enumerations that people read and write.
#pragma once

#include "core/base/enum_names.h"
#include "core/base/types.h"

namespace batchflow {

constexpr std::string_view form_name(Form form) {
  constexpr std::string_view kNames[] = {"encoded", "decoded", "prepared"};
  return name_in<Form::prepared>(kNames, form);
}

constexpr std::string_view tier_name(Tier tier) {
  constexpr std::string_view kNames[] = {"gpu", "dram", "nvme", "store"};
  return name_in<Tier::store>(kNames, tier);
}

}  // namespace batchflow
