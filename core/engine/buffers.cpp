#include "core/engine/buffers.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/config_value.h"
#include "core/order/keys.h"
#include "core/order/weights.h"

namespace batchflow::engine {
namespace {

constexpr std::size_t kReportedMost = 8192;                           // samples, of one buffer
constexpr std::uint64_t kFeatureBytesMost = std::uint64_t{64} << 20;  // of a buffer's exemplars

}  // namespace

// ------------------------------------------------------------------------------ one buffer ----

Buffer::Buffer(const BufferName& name, std::uint32_t exemplars_most, std::string_view policy,
               const PolicyList& list)
    : name_(name),
      exemplars_most_(exemplars_most),
      policy_text_(policy),
      choice_(list.choose(PolicyKind::rehearsal, policy)),
      policy_(choice_.make_rehearsal(exemplars_most)) {}

RehearsalView Buffer::view(const Exemplar& exemplar, std::span<const float> features) const {
  return {exemplar, order::buffer_number(name_.version, name_.number, exemplar.sample), features};
}

void Buffer::put(std::size_t index, const Exemplar& exemplar, std::span<const float> features) {
  if (index == exemplars_.size()) {
    exemplars_.push_back(exemplar);
  } else if (exemplars_[index].sample != exemplar.sample) {
    index_of_.erase(exemplars_[index].sample.value);
  }
  exemplars_[index] = exemplar;
  index_of_[exemplar.sample.value] = static_cast<std::uint32_t>(index);
  policy_->put(index, view(exemplar, features));
  is_whole_ = false;
}

void Buffer::show(const Catalogue& catalogue, std::span<const SampleId> samples,
                  std::vector<KeptExemplar>& kept) {
  for (const SampleId sample : samples) {
    const std::uint64_t since = shown_++;
    if (index_of_.count(sample.value) > 0) continue;
    Reported reported;
    if (auto found = reported_.extract(sample.value)) reported = std::move(found.mapped());
    const std::optional<std::uint32_t> label =
        reported.label ? reported.label : catalogue.label(sample);
    const Exemplar exemplar{sample, label.value_or(kNoClass), reported.is_scored, reported.score,
                            since};
    const std::size_t size = exemplars_.size();
    const std::size_t index =
        policy_->choose(view(exemplar, reported.features),
                        Random(order::buffer_visit_key(name_.version, name_.number, since)));
    if (index == kNoChoice) continue;
    if (index > size || index >= exemplars_most_) {
      ++refused_;  // and the sample is left
      continue;
    }
    put(index, exemplar, reported.features);
    kept.push_back({static_cast<std::uint32_t>(index), exemplar});
  }
}

Buffer::Reported& Buffer::reported_of(SampleId sample) {
  const auto [found, is_new] = reported_.try_emplace(sample.value);
  if (is_new) {
    reported_order_.push_back(sample.value);
    // Those that were shown meanwhile are in the list, and no longer in the table.
    while (reported_order_.size() > kReportedMost) {
      if (reported_order_.front() != sample.value) reported_.erase(reported_order_.front());
      reported_order_.pop_front();
    }
  }
  return found->second;
}

void Buffer::score(SampleId sample, float score) {
  const auto found = index_of_.find(sample.value);
  if (found == index_of_.end()) {
    Reported& one = reported_of(sample);
    one.is_scored = true;
    one.score = score;
    return;
  }
  Exemplar scored = exemplars_[found->second];
  scored.is_scored = true;
  scored.score = score;
  put(found->second, scored, {});
}

void Buffer::describe(SampleId sample, std::optional<std::uint32_t> label,
                      std::span<const float> features) {
  if (features.size() * sizeof(float) * exemplars_most_ > kFeatureBytesMost) features = {};
  const auto found = index_of_.find(sample.value);
  if (found == index_of_.end()) {
    Reported& one = reported_of(sample);
    if (label) one.label = label;
    if (!features.empty()) one.features.assign(features.begin(), features.end());
    return;
  }
  // The class stays as it was promised.
  put(found->second, Exemplar(exemplars_[found->second]), features);
}

std::shared_ptr<const order::Exemplars> Buffer::whole() {
  if (is_whole_) return whole_;
  is_whole_ = true;
  std::vector<SampleId> samples;
  std::vector<std::uint32_t> weights;
  samples.reserve(exemplars_.size());
  for (const Exemplar& one : exemplars_) {
    samples.push_back(one.sample);
    if (policy_->weighs()) weights.push_back(order::weight_of_score(policy_->weight(one)));
  }
  whole_ = order::Exemplars::make(std::move(samples), std::move(weights));
  return whole_;
}

bool Buffer::is_of(const Catalogue& catalogue) const {
  return std::all_of(exemplars_.begin(), exemplars_.end(),
                     [&](const Exemplar& one) { return one.sample.value < catalogue.samples(); });
}

bool Buffer::restore(std::uint64_t shown, std::span<const Exemplar> exemplars) {
  if (shown < shown_ || exemplars.size() > exemplars_most_ - exemplars_.size()) return false;
  for (const Exemplar& one : exemplars) {
    if (one.since >= shown || !std::isfinite(one.score) || index_of_.count(one.sample.value) > 0)
      return false;
    put(exemplars_.size(), one, {});
  }
  shown_ = shown;
  return true;
}

// ----------------------------------------------------------------------------- all of them ----

bool Buffers::has_room(std::uint64_t exemplars, std::vector<BufferName>& leave) const {
  std::uint64_t used = exemplars_;
  std::size_t count = all_.size();
  std::vector<const Buffer*> unused;
  for (const auto& [name, buffer] : all_) {
    if (buffer.jobs == 0) unused.push_back(&buffer);
  }
  std::sort(unused.begin(), unused.end(), [](const Buffer* one, const Buffer* other) {
    return one->last_used < other->last_used;
  });
  for (const Buffer* one : unused) {
    if (used + exemplars <= kExemplarsMost && count < kBuffersMost) break;
    used -= one->exemplars_most();
    --count;
    leave.push_back(one->name());
  }
  return used + exemplars <= kExemplarsMost && count < kBuffersMost;
}

std::optional<Buffers::Objection> Buffers::objection(const JobJoined& event, Digest version) const {
  if (event.buffer == 0) return std::nullopt;
  if (event.rehearsed == 0 || event.buffer_exemplars == 0 ||
      event.buffer_exemplars > order::kExemplarsMost)
    return Objection{Refusal::bad_request};
  std::string text;
  try {
    text = list_.choose(PolicyKind::rehearsal, event.buffer_policy).text();
  } catch (const ConfigError&) {
    return Objection{Refusal::bad_request};
  }
  const auto found = all_.find({event.buffer, version});
  if (found != all_.end()) {
    const Buffer& buffer = found->second;
    const bool is_same = buffer.exemplars_most() == event.buffer_exemplars &&
                         list_.choose(PolicyKind::rehearsal, buffer.policy()).text() == text;
    if (is_same) return std::nullopt;
    return Objection{Refusal::other_buffer, event.buffer_exemplars, buffer.exemplars_most()};
  }
  std::vector<BufferName> leave;
  if (has_room(event.buffer_exemplars, leave)) return std::nullopt;
  return Objection{Refusal::other_buffer, event.buffer_exemplars, 0};
}

Buffer& Buffers::join(const JobJoined& event, const Catalogue& catalogue,
                      std::vector<BufferName>& gone) {
  const BufferName name{event.buffer, catalogue.version()};
  const auto found = all_.find(name);
  if (found != all_.end() && !found->second.is_of(catalogue)) {
    forget(name);
    gone.push_back(name);
  }
  if (all_.count(name) == 0) {
    std::vector<BufferName> leave;
    BF_CHECK(has_room(event.buffer_exemplars, leave));
    for (const BufferName& one : leave) forget(one);
    gone.insert(gone.end(), leave.begin(), leave.end());
    exemplars_ += event.buffer_exemplars;
  }
  Buffer& buffer = all_.try_emplace(name, name, event.buffer_exemplars, event.buffer_policy, list_)
                       .first->second;
  ++buffer.jobs;
  buffer.last_used = ++serials_;
  return buffer;
}

void Buffers::forget(const BufferName& name) {
  const auto found = all_.find(name);
  if (found == all_.end()) return;
  exemplars_ -= found->second.exemplars_most();
  refused_by_gone_ += found->second.refused();
  all_.erase(found);
}

bool Buffers::promised(const BufferPromised& event) {
  const BufferName name{event.buffer, event.version};
  const auto found = all_.find(name);
  if (found != all_.end() && found->second.jobs > 0) return false;
  if (restore(event)) return true;
  forget(name);
  return false;
}

bool Buffers::restore(const BufferPromised& event) {
  if (event.buffer == 0 || event.exemplars_most == 0 ||
      event.exemplars_most > order::kExemplarsMost)
    return false;
  const BufferName name{event.buffer, event.version};
  std::vector<BufferName> leave;
  const bool is_new = all_.count(name) == 0;
  if (is_new && (!has_room(event.exemplars_most, leave) || !leave.empty())) return false;
  try {
    Buffer& buffer =
        all_.try_emplace(name, name, event.exemplars_most, event.policy, list_).first->second;
    if (is_new) {
      exemplars_ += event.exemplars_most;
      buffer.last_used = ++serials_;
    }
    return buffer.restore(event.shown, event.exemplars);
  } catch (const ConfigError&) {
    return false;  // its policy is of a plugin that is not loaded
  }
}

std::uint64_t Buffers::refused() const {
  std::uint64_t sum = refused_by_gone_;
  for (const auto& [name, buffer] : all_) sum += buffer.refused();
  return sum;
}

}  // namespace batchflow::engine
