#include "runtime/prepare/number_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <variant>

#include "core/base/check.h"
#include "runtime/prepare/numbers.h"
#include "runtime/prepare/plan_fields.h"
#include "runtime/prepare/sound_steps.h"
#include "runtime/sources/record.h"

namespace batchflow::prepare {
namespace {

bool has_parts(const sources::SampleIndex& dataset) {
  return dataset.kind() == sources::RecordKind::tar ||
         dataset.kind() == sources::RecordKind::example;
}

void take(config::ConfigSection& section, NumbersField field, const Tokens& step) {
  batch::Field& result = field.made;
  const std::vector<std::uint64_t> shape = result.shape;
  if (shape.size() != 1 || !converts(result.type, batch::ElementType::i64))
    section.refuse("step", fmt::format("field '{}' is no sequence of tokens", result.name),
                   "leave this step out, or name another field");
  if (step.fit == Tokens::Fit::pack) {
    if (result.ragged || shape[0] < step.length)
      section.refuse("length",
                     fmt::format("a sample of '{}' has {} tokens", result.name,
                                 result.ragged ? "not always as many" : std::to_string(shape[0])),
                     "pack samples of one size, into sequences that are shorter");
    result.shape = {shape[0] / step.length, step.length};
  } else {
    if (result.type == batch::ElementType::u8 || result.type == batch::ElementType::u16
            ? step.pad_with >> 8 * batch::element_bytes(result.type) != 0
            : step.pad_with > INT32_MAX)
      section.refuse("pad_with",
                     fmt::format("{} is no {}", step.pad_with, batch::element_name(result.type)),
                     "write a smaller number");
    result.shape = {step.length};
  }
  result.ragged = false;
  field.plan.tokens = step;
}

void take(config::ConfigSection& section, NumbersField field, const Reshape& step) {
  batch::Field& result = field.made;
  const auto elements = [](const std::vector<std::uint64_t>& shape) {
    double product = 1;
    for (const std::uint64_t size : shape) product *= static_cast<double>(size);
    return product;
  };
  if (result.ragged || elements(result.shape) != elements(step.shape))
    section.refuse("shape",
                   result.ragged
                       ? fmt::format("field '{}' has not always as many numbers", result.name)
                       : fmt::format("field '{}' has {} numbers a sample", result.name,
                                     elements(result.shape)),
                   "write a shape of as many");
  result.shape = step.shape;
}

void take(config::ConfigSection& section, NumbersField field, const Cast& step) {
  batch::Field& result = field.made;
  const batch::ElementType type = step.type;
  if (!converts(result.type, type))
    section.refuse(
        "to",
        fmt::format("not all values of {}, as field '{}' has it, are values of {}",
                    batch::element_name(result.type), result.name, batch::element_name(type)),
        "write a wider type, or a floating one");
  result.type = type;
}

}  // namespace

void plan_numbers(PipelineDraft& draft) {
  if (!draft.parts.numbers.empty()) return;
  batch::BatchSpec& spec = draft.parts.spec;
  spec = stored_fields(draft.dataset);
  const std::string& part = draft.parts.part;
  if (spec.fields.empty()) {
    if (part.empty())
      draft.section.refuse("steps", "samples of this dataset make no batch as they are stored",
                           "write field: NAME, or decode a picture; the log says why");
    spec.fields = {{part, batch::ElementType::u8, {draft.dataset.sums().largest}, true}};
  } else if (!part.empty() && !spec.find(part)) {
    refuse_part(draft.section, "field", draft.dataset, draft.parts.part);
  } else if (has_parts(draft.dataset)) {
    std::erase_if(spec.fields, [&](const batch::Field& field) {
      return part.empty()
                 ? draft.has_labels && sources::is_label_part(draft.dataset.kind(), field.name)
                 : field.name != part;
    });
  }
  for (std::size_t i = 0; i < spec.fields.size(); ++i)
    draft.parts.numbers.push_back({spec.fields[i], i});
}

NumbersField worked_on(PipelineDraft& draft, config::ConfigSection& section) {
  if (draft.has_fields)
    section.refuse("step", "no picture is decoded, and each of 'fields' has steps of its own",
                   "write this step below the field that it is for");
  plan_numbers(draft);
  for (std::size_t i = 0; i < draft.parts.numbers.size(); ++i) {
    const std::string& name = draft.parts.numbers[i].stored.name;
    if (draft.parts.part.empty() ? name != sources::kLabelField : name == draft.parts.part)
      return {draft.parts.numbers[i], draft.parts.spec.fields[i]};
  }
  refuse_part(section, "step", draft.dataset, draft.parts.part);
}

void take_number_step(config::ConfigSection& section, const PipelineDraft& draft,
                      NumbersField field, const PipelineStep& step, std::uint32_t index) {
  std::visit(
      [&](const auto& kind) {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, Tokens> || std::is_same_v<Kind, Reshape> ||
                      std::is_same_v<Kind, Cast>) {
          take(section, field, kind);
        } else if constexpr (std::is_same_v<Kind, DecodeSound>) {
          decode_sound(section, field, kind);
        } else if constexpr (std::is_same_v<Kind, CutSound>) {
          cut_sound(section, draft, field, kind, index);
        } else if constexpr (std::is_same_v<Kind, MelOfSound>) {
          mel_of_sound(section, field, kind);
        } else {
          BF_CHECK_MSG(false, "a step for numbers");
        }
      },
      step.kind);
}

}  // namespace batchflow::prepare
