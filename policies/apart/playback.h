// What policies in other processes answered, kept with a journal, and played back: a replay needs
// neither the processes nor their clock.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policies/apart/calls.h"

namespace batchflow::apart {

// The answers of a step in the order of the calls, of all processes.
class AnswerRecord {
 public:
  void add(std::optional<std::span<const std::byte>> answer);
  // The answers since the last call. They are valid until the next.
  std::span<const std::byte> take();

 private:
  std::vector<std::byte> answers_;
  std::vector<std::byte> taken_;
};

class Playback final : public Answering {
 public:
  // The step that comes now has these answers, which stay until it is over.
  void begin_step(std::span<const std::byte> answers) { answers_ = answers; }

  std::uint32_t new_instance() override { return 0; }
  void tell(std::span<const std::byte>) override {}
  std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call,
                                                bool recorded) override;
  void reject(std::string_view) override {}

 private:
  std::span<const std::byte> answers_;
};

}  // namespace batchflow::apart
