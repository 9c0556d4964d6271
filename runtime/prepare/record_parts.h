// How fields are found in a stored sample: by the sources, where they are built.
#pragma once

#ifdef BATCHFLOW_HAS_RECORDS
#include "runtime/sources/record.h"
#else

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/batch/batch_spec.h"
#include "runtime/sources/sample_index.h"

namespace batchflow {

struct Part {
  std::string_view name;
  ElementType type = ElementType::u8;
  std::span<const std::byte> bytes;
};

class RecordParts {
 public:
  bool find(RecordKind kind, std::span<const std::byte> record, const BatchSpec& stored) {
    parts_.clear();
    if (kind == RecordKind::whole)
      parts_.push_back({"bytes", ElementType::u8, record});
    else if (kind == RecordKind::rows && !stored.fields.empty())
      parts_.push_back({stored.fields[0].name, stored.fields[0].type, record});
    return !parts_.empty();
  }
  std::span<const Part> parts() const { return parts_; }
  const Part* part(std::string_view name) const {
    for (const Part& part : parts_)
      if (part.name == name) return &part;
    return nullptr;
  }
  std::string_view problem() const { return "records of this kind cannot be read here"; }

 private:
  std::vector<Part> parts_;
};

}  // namespace batchflow
#endif
