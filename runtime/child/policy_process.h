// A plugin in a process of its own, which decides there for the engine. Whatever that process does,
// each call ends within some 100 ms. A process that has left a call without an answer is not asked
// again. Answers are copied, and the proxies check them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policies/apart/calls.h"
#include "policies/plugin/plugin_file.h"
#include "runtime/child/wire.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/mapping.h"

namespace batchflow::child {

// Why a process decides no more.
enum class End : std::uint8_t {
  failed,   // it threw, or broke a rule
  hung,     // it did not answer, though it could
  crashed,  // it has ended
  lost,     // it was stopped, or got no processor or drive: no fault of the plugin's
};

class PolicyProcess {
 public:
  // Starts it. It ends with the thread that calls this. Throws ConfigError.
  explicit PolicyProcess(const plugin::PluginFile& file);
  PolicyProcess(const PolicyProcess&) = delete;
  ~PolicyProcess() { end(); }

  // Waits until the plugin is loaded there, some seconds at most. Any thread calls it, once, before
  // all that follows. Returns what the plugin brings, as Described reads it. Throws ConfigError.
  std::vector<std::byte> begin();

  pid_t process() const { return process_; }  // below 0: it has ended
  // Processes that were killed may take their time to end; this waits for none.
  static void reap();

  struct Failure {
    End end;
    std::string why;
  };
  // Set: the process has failed, and answers nothing any more.
  const std::optional<Failure>& failure() const { return failure_; }

  // The last call that it was asked; a long one is cut.
  std::span<const std::byte> last_question() const { return last_question_; }

  // These do what apart::Answering says.
  void tell(std::span<const std::byte> call);
  std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call);
  void reject(std::string_view why) { fail(End::failed, std::string(why)); }

 private:
  class Patience;

  void make_areas();
  void spawn(const plugin::PluginFile& file);
  void end();
  bool put(std::span<const std::byte> call, bool answered);
  bool make_room(std::size_t bytes, Patience& patience);
  bool wait_for_answer(Patience& patience);
  std::optional<std::span<const std::byte>> answer();
  void wake();
  void count(std::chrono::nanoseconds waited);
  void fail(End end, std::string why);

  CallsHead& calls() const { return *reinterpret_cast<CallsHead*>(calls_.memory().data()); }
  AnswersHead& answers() const { return *reinterpret_cast<AnswersHead*>(answers_.memory().data()); }
  std::byte* ring() const { return calls_.memory().data() + kHeadBytes; }

  pid_t process_ = -1;
  protocol::Descriptor calls_file_, answers_file_, lives_;
  protocol::Mapping calls_, answers_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;   // of the calls, as far as is known
  std::uint32_t asked_ = 1;  // calls that are answered; the first is what it brings
  std::vector<std::byte> answer_;
  std::vector<std::byte> last_question_;
  std::optional<Failure> failure_;
  // Of long waits: since when they are counted, and what they are together.
  std::chrono::nanoseconds slow_since_{}, slow_{};
  std::chrono::nanoseconds starved_{};  // until the last long wait
};

}  // namespace batchflow::child
