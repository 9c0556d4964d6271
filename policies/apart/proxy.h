// What proxies of all kinds have in common: each call of the policy goes to Answering. After an
// answer that is against the rules, the proxy asks nothing more.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "policies/apart/calls.h"
#include "policies/apart/message.h"
#include "policies/apart/proxies.h"

namespace batchflow::apart {

inline MakeCall make_call(const engine::PolicyContext& context) {
  MakeCall call;
  call.seed = context.random.key();
  return call;
}
inline MakeCall make_call(const engine::RehearsalContext& context) {
  MakeCall call;
  call.capacity = context.capacity;
  return call;
}
inline MakeCall make_call(const engine::MixtureContext& context) {
  MakeCall call;
  call.items = context.sources;
  return call;
}
inline MakeCall make_call(const engine::EvictionContext& context) {
  MakeCall call;
  call.seed = context.random.key();
  call.items = context.items;
  call.capacity = context.capacity;
  call.dataset = context.dataset;
  call.form = context.form;
  call.tier = context.tier;
  return call;
}
template <class Context>
bool is_recorded(const Context&) {
  return true;
}
inline bool is_recorded(const engine::EvictionContext& context) {
  return !context.shadow;
}

template <class Interface>
class Proxy : public Interface {
 public:
  template <class Context>
  explicit Proxy(const Context& context)
      : source_(*static_cast<const ProxySource*>(context.plugin)),
        instance_(source_.answering->new_instance()),
        recorded_(is_recorded(context)) {
    MakeCall made = make_call(context);
    made.policy = source_.policy;
    made.parameters = static_cast<std::uint32_t>(context.parameters.values().size());
    MessageWriter call = begin(CallKind::make);
    call.put(made);
    for (const Parameters::Value& one : context.parameters.values()) call.text(one.text);
    if (auto answer = ask()) standing_ = standing(*answer);
    if (!failed_) made_ = true;
  }
  Proxy(const Proxy&) = delete;
  ~Proxy() override {
    if (!made_) return;
    begin(CallKind::end);
    tell();
  }

  std::size_t save(std::span<std::byte> room) const override {
    begin(CallKind::save).put(static_cast<std::uint64_t>(room.size()));
    auto answer = ask();
    if (!answer) return 0;
    std::vector<std::byte> saved;
    answer->list(saved);
    if (!whole(*answer) || saved.size() > room.size()) return 0;
    std::copy(saved.begin(), saved.end(), room.begin());
    return saved.size();
  }
  void restore(std::span<const std::byte> saved) override {
    begin(CallKind::restore).list(saved);
    tell();
  }

 protected:
  bool failed() const { return failed_; }
  MessageWriter begin(CallKind kind) const {
    call_.clear();
    MessageWriter call(call_);
    call.put(CallHeader{kind, {}, instance_});
    return call;
  }
  void tell() const {
    if (!failed_) source_.answering->tell(call_);
  }
  std::optional<MessageReader> ask() const {
    if (failed_) return std::nullopt;
    if (const auto answer = source_.answering->ask(call_, recorded_)) return MessageReader(*answer);
    failed_ = true;
    return std::nullopt;
  }
  // Whether the answer could be read, to its end. If not, nothing more is asked.
  bool whole(const MessageReader& answer) const {
    if (answer.ok() && answer.at_end()) return true;
    reject("an answer that cannot be read");
    return false;
  }
  void reject(std::string_view why) const {
    failed_ = true;
    source_.answering->reject(why);
  }
  Standing standing(MessageReader& answer) const {
    const auto found = answer.get<Standing>();
    if (!answer.ok()) reject("an answer that cannot be read");
    return found;
  }
  // An answer that is one value.
  template <class T>
  std::optional<T> ask_for() const {
    auto answer = ask();
    if (!answer) return std::nullopt;
    const T value = answer->template get<T>();
    return whole(*answer) ? std::optional(value) : std::nullopt;
  }
  // The same for an answer that begins with a Standing.
  template <class T>
  std::optional<T> ask_standing() {
    auto answer = ask();
    if (!answer) return std::nullopt;
    standing_ = standing(*answer);
    const T value = answer->template get<T>();
    return whole(*answer) ? std::optional(value) : std::nullopt;
  }
  Instant ask_again_at() const { return Instant(Duration(standing_.ask_again)); }

  const ProxySource source_;
  const std::uint32_t instance_;
  const bool recorded_;
  Standing standing_;

 private:
  mutable std::vector<std::byte> call_;
  mutable bool failed_ = false;
  bool made_ = false;
};

}  // namespace batchflow::apart
