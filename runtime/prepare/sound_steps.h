// The steps of a pipeline that make sounds, as number_steps.h takes them. Each throws ConfigError.
#pragma once

#include <cstdint>

#include "runtime/prepare/number_steps.h"

namespace batchflow::prepare {

void decode_sound(config::ConfigSection& section, NumbersField field, const DecodeSound& step);
void cut_sound(config::ConfigSection& section, const PipelineDraft& draft, NumbersField field,
               const CutSound& step, std::uint32_t index);
void mel_of_sound(config::ConfigSection& section, NumbersField field, const MelOfSound& step);
// Whether all sounds of the pipeline can be rows of a batch.
void check_sounds(const PipelineDraft& draft);

}  // namespace batchflow::prepare
