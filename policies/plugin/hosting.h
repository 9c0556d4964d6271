// How this program calls a policy of a plugin. An instance that fails is not called any more.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "policies/plugin/failures.h"
#include "policies/plugin/hosted.h"

namespace batchflow::plugin {

class Hosting {
 public:
  // `once`: of one instance, which is not called any more once it has failed.
  explicit Hosting(const HostedPolicy& policy, bool once = true) : policy_(policy), once_(once) {}

  void fail(std::string_view why) {
    if (std::exchange(failed_, once_)) return;
    report({policy_.text(), std::string(why.substr(0, 500)), "", ""});
  }
  bool failed() const { return failed_; }
  const HostedPolicy& policy() const { return policy_; }

  // Calls the plugin. An instance that has failed is not called.
  template <class Call>
  void tell(Call call) {
    if (failed_) [[unlikely]]
      return;
    try {
      call();
    } catch (...) {
      fail("an exception left it; the functions of a plugin must not throw");
    }
  }
  template <class Answer, class Call>
  Answer ask(Answer otherwise, Call call) {
    Answer answer = otherwise;
    tell([&] { answer = call(); });
    return failed_ ? otherwise : answer;
  }
  // An answer out of a list.
  template <class Answer, class Call>
  Answer ask_one_of(Answer otherwise, Answer last, const char* question, Call call) {
    const auto most = static_cast<std::uint32_t>(last);
    const std::uint32_t answer = ask(static_cast<std::uint32_t>(otherwise), call);
    if (answer > most) [[unlikely]] {
      fail(fmt::format("{} answered {}, and the greatest answer is {}", question, answer, most));
      return otherwise;
    }
    return static_cast<Answer>(answer);
  }

 private:
  const HostedPolicy& policy_;
  const bool once_;
  bool failed_ = false;
};

}  // namespace batchflow::plugin
