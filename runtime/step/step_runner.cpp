#include "runtime/step/step_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace batchflow::step {
namespace {

// The longest wait before a process is started again; the wait doubles with each crash in a row.
constexpr std::chrono::milliseconds kWaitMost{100};
// One message has the samples of so much time, since each wake of a process may have to wait for a
// core. It is short beside what a block takes, and beside the time that a sample may take.
constexpr Duration kMessageTakes = std::chrono::milliseconds(20);
constexpr std::size_t kAheadMost = 32;
constexpr Bytes kAheadBytes = Bytes{512} << 10;  // of each area

bool takes_several(const StepPlugin& plugin) {
  return !plugin.source().interpreter.program.empty();
}

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
  if (takes_several(*one.plugin)) {
    const auto several = [most](Bytes bytes) {
      return std::min({most, kAheadBytes, kAheadMost * StepProcess::aligned(bytes)});
    };
    one.input = std::max(one.input, several(input));
    one.output = std::max(one.output, several(output));
  }
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
  const Duration took = std::chrono::steady_clock::now() - began;
  one.plugin->ended(result, sample_, is_first, took, one.process.problem());
  if (!is_first) one.each = one.each == Duration{0} ? took : (3 * one.each + took) / 4;
  if (one.one_by_one > 0) --one.one_by_one;
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

std::size_t StepRunner::ahead_most(const std::shared_ptr<StepPlugin>& plugin, Bytes input,
                                   Bytes output) {
  const auto found = running_.find(plugin.get());
  if (found == running_.end() || !takes_several(*plugin)) return 1;
  const Running& one = found->second;
  const Bytes in = StepProcess::aligned(input), out = StepProcess::aligned(output);
  if (one.one_by_one > 0 || one.each <= Duration{0} || in == 0 || out == 0 ||
      !one.process.has_room(2 * in, 2 * out))
    return 1;
  const auto by_time = static_cast<std::size_t>(kMessageTakes / one.each);
  return std::clamp<std::size_t>(std::min({by_time, one.input / in, one.output / out}), 1,
                                 kAheadMost);
}

bool StepRunner::run_ahead(const std::shared_ptr<StepPlugin>& plugin,
                           std::span<const std::uint64_t> shape, std::span<Ahead> samples,
                           Bytes output) {
  Running& one = running_.find(plugin.get())->second;
  const Bytes input = samples.front().bytes.size();
  std::vector<std::uint64_t> seeds;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::copy(samples[i].bytes.begin(), samples[i].bytes.end(),
              one.process.input() + i * StepProcess::aligned(input));
    seeds.push_back(plugin->declared().random ? samples[i].seed : 0);
  }
  const auto began = std::chrono::steady_clock::now();
  if (!one.process.call_all(input, shape, seeds, output)) {
    one.one_by_one = kAheadMost;
    return false;
  }
  one.each = (std::chrono::steady_clock::now() - began) / static_cast<std::int64_t>(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::byte* const made = one.process.all_outputs() + i * StepProcess::aligned(output);
    samples[i].bytes.assign(made, made + output);
    samples[i].problem = one.process.problem_of(i);
    samples[i].took = one.each;
  }
  return true;
}

const std::byte* StepRunner::take_ahead(const std::shared_ptr<StepPlugin>& plugin,
                                        const Ahead& made) {
  Running& one = running_.find(plugin.get())->second;
  const bool done = made.problem.empty();
  plugin->ended(done ? StepResult::done : StepResult::corrupt, sample_, false, made.took,
                made.problem);
  one.crashes = 0;
  return done ? made.bytes.data() : fail(one, false, made.problem);
}

void StepRunner::end_given_up() {
  current_ = nullptr;
  std::erase_if(running_, [](const auto& one) { return one.second.plugin->is_given_up(); });
}

std::uint64_t StepRunner::rows() const {
  return current_->process.rows();
}

}  // namespace batchflow::step
