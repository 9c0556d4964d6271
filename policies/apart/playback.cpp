#include "policies/apart/playback.h"

#include <cstring>
#include <utility>

namespace batchflow::apart {
namespace {

constexpr std::uint32_t kNoAnswer = UINT32_MAX;

}  // namespace

void AnswerRecord::add(std::optional<std::span<const std::byte>> answer) {
  const std::uint32_t bytes = answer ? static_cast<std::uint32_t>(answer->size()) : kNoAnswer;
  const auto* const count = reinterpret_cast<const std::byte*>(&bytes);
  answers_.insert(answers_.end(), count, count + sizeof(bytes));
  if (answer) answers_.insert(answers_.end(), answer->begin(), answer->end());
}

std::span<const std::byte> AnswerRecord::take() {
  taken_.swap(answers_);
  answers_.clear();
  return taken_;
}

// A record that was cut has no more answers.
std::optional<std::span<const std::byte>> Playback::ask(std::span<const std::byte>, bool recorded) {
  std::uint32_t bytes = 0;
  if (!recorded || answers_.size() < sizeof(bytes)) return std::nullopt;
  std::memcpy(&bytes, answers_.data(), sizeof(bytes));
  const auto rest = answers_.subspan(sizeof(bytes));
  if (bytes == kNoAnswer || bytes > rest.size()) {
    answers_ = bytes == kNoAnswer ? rest : std::span<const std::byte>();
    return std::nullopt;
  }
  answers_ = rest.subspan(bytes);
  return rest.first(bytes);
}

}  // namespace batchflow::apart
