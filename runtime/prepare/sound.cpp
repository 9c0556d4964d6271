#include "runtime/prepare/sound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/random.h"
#include "core/order/keys.h"
#include "runtime/memory/scratch.h"
#include "runtime/prepare/numbers.h"

namespace batchflow::prepare {
namespace {

// Each is made once; files of a dataset have few rates.
constexpr std::size_t kResamplersMost = 8;

// Channels side by side become `channels` rows of `frames`, one behind the other.
void part_channels(std::span<const float> in, std::uint32_t from, std::uint32_t channels,
                   std::uint64_t frames, float* out) {
  for (std::uint64_t frame = 0; frame < frames; ++frame) {
    const float* const values = in.data() + frame * from;
    if (channels == 1) {
      float sum = 0;
      for (std::uint32_t c = 0; c < from; ++c) sum += values[c];
      out[frame] = sum / static_cast<float>(from);
    } else {
      for (std::uint32_t c = 0; c < channels; ++c) out[c * frames + frame] = values[c];
    }
  }
}

}  // namespace

bool SoundWorker::open(const SoundPlan& plan, std::span<const std::byte> bytes) {
  if (!file_.open(bytes)) return fail(file_.problem());
  const audio::SoundHead& head = file_.head();
  if (head.frames > memory::counted_product(head.rate, plan.decode.seconds_most))
    return fail(fmt::format("it lasts {:.1f} s, of which {} are allowed",
                            static_cast<double>(head.frames) / head.rate,
                            plan.decode.seconds_most));
  if (plan.decode.channels != 1 && head.channels != plan.decode.channels)
    return fail(fmt::format("it has {} channels, and the pipeline {}", head.channels,
                            plan.decode.channels));
  if (audio::SoundResampler::weights(head.rate, plan.decode.rate) >
      audio::SoundResampler::kWeightsMost)
    return fail(fmt::format("{} frames a second cannot be made {}", head.rate, plan.decode.rate));
  return true;
}

Bytes SoundWorker::needs(const SoundPlan& plan) const {
  const audio::SoundHead& head = file_.head();
  // What is read, its channels apart, and these at another rate.
  const std::uint64_t after =
      (memory::counted_product(head.frames, plan.decode.rate) + head.rate - 1) / head.rate;
  std::uint64_t frames = std::max(after, plan.cut ? plan.cut->frames : 0);
  if (plan.mel)
    frames = std::max(
        frames, memory::counted_product(
                    plan.mel->mels, audio::MelSpectrogram::columns(*plan.mel, plan.cut->frames)));
  const std::uint64_t values = memory::counted_sum(
      memory::counted_product(head.frames, head.channels),
      memory::counted_product(memory::counted_sum(head.frames, memory::counted_sum(frames, frames)),
                              plan.decode.channels));
  return memory::counted_sum(
      memory::counted_product(values, sizeof(float)),
      audio::SoundFile::kNeeds +
          audio::SoundResampler::weights(head.rate, plan.decode.rate) * sizeof(float) +
          (plan.mel ? audio::MelSpectrogram::needs(*plan.mel) : 0));
}

bool SoundWorker::write(const SoundPlan& plan, std::uint64_t draw_key, const batch::Field& field,
                        const batch::BlockWriter& out, std::size_t at, std::uint32_t index) {
  const audio::SoundHead head = file_.head();
  const std::uint32_t channels = plan.decode.channels;
  read_.resize(head.frames * head.channels);
  if (!file_.read(read_)) return fail(file_.problem());
  file_.close();
  made_.resize(head.frames * channels);
  part_channels(read_, head.channels, channels, head.frames, made_.data());

  std::uint64_t frames = head.frames;
  if (head.rate != plan.decode.rate) {
    const audio::SoundResampler& resampler = this->resampler(plan.decode.rate);
    frames = resampler.frames_after(head.frames);
    read_.resize(frames * channels);
    for (std::uint32_t c = 0; c < channels; ++c)
      resampler.run(std::span(made_).subspan(c * head.frames, head.frames),
                    std::span(read_).subspan(c * frames, frames));
    std::swap(read_, made_);
  }
  if (plan.cut) {
    const std::uint64_t wanted = plan.cut->frames;
    std::uint64_t from = 0;
    if (plan.cut->anywhere && frames > wanted) {
      Random random(order::step_seed(draw_key, plan.cut_draw));
      from = random.below(frames - wanted + 1);
    }
    read_.assign(wanted * channels, 0);
    for (std::uint32_t c = 0; c < channels; ++c)
      std::copy_n(made_.data() + c * frames + from, std::min(wanted, frames - from),
                  read_.data() + c * wanted);
    std::swap(read_, made_);
    frames = wanted;
  }
  if (plan.mel) {
    if (!settings_ || *settings_ != *plan.mel) {
      mel_ = std::make_unique<audio::MelSpectrogram>(*plan.mel);
      settings_ = plan.mel;
    }
    const std::uint64_t size = plan.mel->mels * audio::MelSpectrogram::columns(*plan.mel, frames);
    read_.resize(size * channels);
    for (std::uint32_t c = 0; c < channels; ++c)
      mel_->run(std::span(made_).subspan(c * frames, frames),
                std::span(read_).subspan(c * size, size));
    std::swap(read_, made_);
  }
  const auto* const from = reinterpret_cast<const std::byte*>(made_.data());
  std::byte* const to = field.ragged ? out.begin_rows(at, index) : out.row(at, index);
  convert(batch::ElementType::f32, from, field.type, to, made_.size());
  if (field.ragged) out.end_rows(at, index, made_.size());
  return true;
}

void SoundWorker::drop() {
  file_.close();
  std::vector<float>().swap(read_);
  std::vector<float>().swap(made_);
  resamplers_.clear();
}

bool SoundWorker::fail(std::string problem) {
  file_.close();
  problem_ = std::move(problem);
  return false;
}

const audio::SoundResampler& SoundWorker::resampler(std::uint32_t to) {
  const std::pair rates{file_.head().rate, to};
  const auto found = resamplers_.find(rates);
  if (found != resamplers_.end()) return found->second;
  if (resamplers_.size() == kResamplersMost) resamplers_.clear();
  return resamplers_.try_emplace(rates, rates.first, rates.second).first->second;
}

}  // namespace batchflow::prepare
