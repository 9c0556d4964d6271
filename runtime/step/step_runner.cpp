#include "runtime/step/step_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace batchflow::step {
namespace {

// The longest wait before a process is started again; the wait doubles with each crash in a row.
constexpr std::chrono::milliseconds kWaitMost{100};

}  // namespace

std::byte* StepRunner::fail(const Running& one, bool for_all, std::string_view why) {
  failed_ = for_all;
  problem_ = fmt::format("step '{}' of {}: {}", one.plugin->declared().name,
                         one.plugin->source().file.string(), why);
  return nullptr;
}

std::byte* StepRunner::begin(const std::shared_ptr<StepPlugin>& plugin, Bytes input, Bytes output) {
  Running& one = running_.try_emplace(plugin.get(), plugin).first->second;
  current_ = &one;
  input_ = input;
  output_ = output;
  if (!plugin->has_room(input, output))
    return fail(
        one, false,
        fmt::format("a sample of {} bytes that becomes {} is more than a quarter of what its "
                    "process may take; give it more than {} MiB ({})",
                    input, output, plugin->bytes_each() >> 20, plugin->source().memory_setting()));
  if (one.process.has_room(input, output) || start(one, input, output)) return one.process.input();
  return nullptr;
}

bool StepRunner::start(Running& one, Bytes input, Bytes output) {
  if (one.plugin->is_broken()) {
    fail(one, true,
         one.plugin->last_failure() +
             "; so it did again and again, and is not tried for some seconds: mend it, and start "
             "the service anew");
    return false;
  }
  if (one.crashes > 0)
    std::this_thread::sleep_for(
        std::min(kWaitMost, std::chrono::milliseconds(1 << std::min(one.crashes, 10u))));
  // Areas grow in large steps, so that samples of different sizes cause few starts.
  const Bytes most = one.plugin->bytes_each() / 4;
  if (input > one.input) one.input = std::min(most, std::max(input, 2 * one.input));
  if (output > one.output) one.output = std::min(most, std::max(output, 2 * one.output));
  one.plugin->started();
  const std::optional<StepDeclaration> declared = one.process.start(one.input, one.output);
  if (declared && *declared == one.plugin->declared()) return true;
  ++one.crashes;
  const std::string why =
      declared ? "its output is not declared as it was when the pipeline was compiled"
               : one.process.problem();
  one.plugin->could_not_start(why);
  fail(one, true, why);
  one.process.end();
  return false;
}

const std::byte* StepRunner::run(std::span<const std::uint64_t> shape, std::uint64_t seed) {
  Running& one = *current_;
  const auto began = std::chrono::steady_clock::now();
  const bool is_first = !one.process.has_been_called();
  const StepResult result =
      one.process.call(input_, shape, one.plugin->declared().random ? seed : 0, output_);
  one.plugin->ended(result, sample_, is_first, std::chrono::steady_clock::now() - began,
                    one.process.problem());
  if (result == StepResult::crashed || result == StepResult::late) {
    ++one.crashes;
    return fail(one, one.plugin->is_broken(), one.process.problem());
  }
  one.crashes = 0;
  if (result == StepResult::corrupt) return fail(one, false, one.process.problem());
  const batch::Field& made = one.plugin->declared().output;
  if (made.ragged && one.process.rows() > made.rows_most()) {
    return fail(one, false,
                fmt::format("it says that it made {} rows, where {} are the most",
                            one.process.rows(), made.rows_most()));
  }
  return one.process.output();
}

void StepRunner::end_given_up() {
  current_ = nullptr;
  std::erase_if(running_, [](const auto& one) { return one.second.plugin->is_given_up(); });
}

std::uint64_t StepRunner::rows() const {
  return current_->process.rows();
}

}  // namespace batchflow::step
