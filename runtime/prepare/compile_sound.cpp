#include <fmt/format.h>

#include "runtime/prepare/pipeline_compiler.h"

namespace batchflow::prepare {
namespace {

constexpr std::string_view kNoSound = "there is no sound yet";
constexpr std::string_view kDecodeFirst = "write {step: decode_sound, rate: 16000} before it";

}  // namespace

SoundPlan& PipelineCompiler::sound(config::ConfigSection& section) {
  NumbersPlan& plan = worked_on(section).first;
  if (!plan.sound) section.refuse("step", std::string(kNoSound), std::string(kDecodeFirst));
  return *plan.sound;
}

// What the steps so far make of a sound.
void PipelineCompiler::shape_sound(config::ConfigSection& section) {
  auto [plan, field] = worked_on(section);
  const SoundPlan& sound = *plan.sound;
  field.type = batch::ElementType::f32;
  field.ragged = !sound.cut;
  field.shape = {sound.cut ? sound.cut->frames : sound.frames_most()};
  if (sound.mel)
    field.shape = {sound.mel->mels, audio::MelSpectrogram::columns(*sound.mel, sound.cut->frames)};
  if (sound.decode.channels > 1) field.shape.insert(field.shape.begin(), sound.decode.channels);
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                            const DecodeSound& step) {
  if (has_fields_ && !own_)
    section.refuse("step", "sounds beside other fields have steps of their own",
                   "write it into the steps of a field of kind: sound");
  auto [plan, field] = worked_on(section);
  if (plan.stored.type != batch::ElementType::u8 || plan.stored.shape.size() != 1)
    section.refuse("step", fmt::format("field '{}' is no encoded sound", field.name),
                   "leave this step out, or name the field that is by field: NAME");
  plan.sound.emplace().decode = step;
  if (!own_) field.name = plan.stored.name == "bytes" ? "sound" : plan.stored.name;
  shape_sound(section);
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&,
                            std::uint32_t index, const CutSound& step) {
  SoundPlan& plan = sound(section);
  plan.cut = step;
  plan.cut_draw = index;
  check_scratch(section, "frames",
                memory::counted_product(step.frames, plan.decode.channels * sizeof(float)),
                "a sound of so many frames");
  shape_sound(section);
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                            const MelOfSound& step) {
  SoundPlan& plan = sound(section);
  if (!plan.cut)
    section.refuse("step", "sounds would have different lengths, and a spectrogram one",
                   "write {step: cut_sound, frames: N} or random_cut_sound before it");
  audio::MelSettings settings = step.settings;
  settings.rate = plan.decode.rate;
  const double half = static_cast<double>(settings.rate / 2);
  if (!step.f_max_is_given) settings.f_max = half;
  if (settings.f_max <= settings.f_min || settings.f_max > half)
    section.refuse(step.f_max_is_given ? "f_max" : "f_min",
                   fmt::format("from {} to {} Hz, of {} Hz that there are", settings.f_min,
                               settings.f_max, half),
                   "write f_min < f_max, and f_max at most half of the rate");
  if (plan.cut->frames <= settings.n_fft / 2)
    section.refuse("n_fft",
                   fmt::format("a sound of {} frames is too short for it", plan.cut->frames),
                   "write less than twice the frames");
  plan.mel = settings;
  shape_sound(section);
}

void PipelineCompiler::end_sound() {
  const auto check = [this](const NumbersPlan& plan) {
    if (plan.sound && !plan.sound->cut && plan.sound->decode.channels > 1)
      section_.refuse("steps", "sounds of several channels would have different lengths",
                      "add cut_sound or random_cut_sound, or write channels: 1");
  };
  for (const NumbersPlan& plan : out_->numbers_) check(plan);
  for (const JointField& field : out_->joint_) check(field.numbers);
}

}  // namespace batchflow::prepare
