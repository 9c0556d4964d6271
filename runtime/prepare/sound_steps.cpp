#include "runtime/prepare/sound_steps.h"

#include <fmt/format.h>

namespace batchflow::prepare {
namespace {

constexpr std::string_view kNoSound = "there is no sound yet";
constexpr std::string_view kDecodeFirst = "write {step: decode_sound, rate: 16000} before it";

SoundPlan& sound_of(config::ConfigSection& section, NumbersField field) {
  if (!field.plan.sound) section.refuse("step", std::string(kNoSound), std::string(kDecodeFirst));
  return *field.plan.sound;
}

// What the steps so far make of a sound.
void shape_sound(NumbersField of) {
  const SoundPlan& sound = *of.plan.sound;
  batch::Field& field = of.made;
  field.type = batch::ElementType::f32;
  field.ragged = !sound.cut;
  field.shape = {sound.cut ? sound.cut->frames : sound.frames_most()};
  if (sound.mel)
    field.shape = {sound.mel->mels, audio::MelSpectrogram::columns(*sound.mel, sound.cut->frames)};
  if (sound.decode.channels > 1) field.shape.insert(field.shape.begin(), sound.decode.channels);
}

}  // namespace

void decode_sound(config::ConfigSection& section, NumbersField field, const DecodeSound& step) {
  NumbersPlan& plan = field.plan;
  if (plan.stored.type != batch::ElementType::u8 || plan.stored.shape.size() != 1)
    section.refuse("step", fmt::format("field '{}' is no encoded sound", field.made.name),
                   "leave this step out, or name the field that is by field: NAME");
  plan.sound.emplace().decode = step;
  if (!field.is_own) field.made.name = plan.stored.name == "bytes" ? "sound" : plan.stored.name;
  shape_sound(field);
}

void cut_sound(config::ConfigSection& section, const PipelineDraft& draft, NumbersField field,
               const CutSound& step, std::uint32_t index) {
  SoundPlan& plan = sound_of(section, field);
  plan.cut = step;
  plan.cut_draw = index;
  draft.check_scratch(section, "frames",
                      memory::counted_product(step.frames, plan.decode.channels * sizeof(float)),
                      "a sound of so many frames");
  shape_sound(field);
}

void mel_of_sound(config::ConfigSection& section, NumbersField field, const MelOfSound& step) {
  SoundPlan& plan = sound_of(section, field);
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
  shape_sound(field);
}

void check_sounds(const PipelineDraft& draft) {
  const auto check = [&](const NumbersPlan& plan) {
    if (plan.sound && !plan.sound->cut && plan.sound->decode.channels > 1)
      draft.section.refuse("steps", "sounds of several channels would have different lengths",
                           "add cut_sound or random_cut_sound, or write channels: 1");
  };
  for (const NumbersPlan& plan : draft.parts.numbers) check(plan);
  for (const JointField& field : draft.parts.joint) check(field.numbers);
}

}  // namespace batchflow::prepare
