#include "runtime/client/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/client/c_interface.h"
#include "runtime/protocol/records.h"

namespace batchflow::client {
namespace {

constexpr std::uint32_t kCredits = 64;

std::string_view name_of(bf_form form) {
  return form == BF_ENCODED ? "encoded" : form == BF_DECODED ? "decoded" : "";
}

}  // namespace

bf_status Store::open(const bf_store_options& options, std::unique_ptr<Store>& out) {
  if (const int form = number_of(options.form); form < BF_PREPARED || form > BF_ENCODED)
    return fail(BF_BAD_ARGUMENT, "'form' is no form; write BF_PREPARED, BF_DECODED or BF_ENCODED");
  bf_loader_options asking = BF_LOADER_OPTIONS_INIT;
  asking.service = options.service;
  asking.dataset = options.dataset;
  asking.pipeline = options.pipeline;
  asking.reading = options.reading;
  asking.batch_samples = 1;
  asking.order = BF_LIVE;
  asking.credits = options.credits > 0 ? options.credits : kCredits;
  asking.timeout_s = options.timeout_s;
  asking.reconnect_s = options.reconnect_s;
  asking.copy = options.copy;
  auto store = std::make_unique<Store>();
  const bf_status status = Loader::open_keyed(asking, name_of(options.form), store->loader_);
  if (status != BF_OK) return status;
  store->loader_->on_session([own = store.get()] { own->send_again(); });
  out = std::move(store);
  return BF_OK;
}

bf_status Store::send(std::span<const std::uint64_t> keys, bf_value* values) {
  std::vector<SampleId> ids;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ids.emplace_back(keys[i]);
    asked_.push_back({ids.back(), number_++, values + i});
  }
  const bf_status status = loader_->ask(ids);
  if (status == BF_OK) return status;
  // The service has heard of none of these.
  asked_.resize(asked_.size() - keys.size());
  number_ -= keys.size();
  return status;
}

// Another service knows nothing of what the one before was asked for.
bf_status Store::send_again() {
  number_ = 0;
  std::erase_if(asked_, [](const Asked& one) { return one.value == nullptr; });
  std::vector<SampleId> ids;
  for (Asked& one : asked_) {
    one.number = number_++;
    ids.push_back(one.key);
  }
  for (std::size_t at = 0; at < ids.size(); at += protocol::kKeysInRecord) {
    const auto part = std::span(ids).subspan(at);
    const bf_status status =
        loader_->ask(part.first(std::min(part.size(), protocol::kKeysInRecord)));
    if (status != BF_OK) return status;
  }
  return BF_OK;
}

// The next answer. Those that nothing waits for any more are let go.
bf_status Store::take() {
  bf_batch batch = BF_BATCH_INIT;
  if (const bf_status status = loader_->next(batch); status != BF_OK) return status;
  const bool is_there = batch.samples > 0;
  const auto found =
      is_there ? asked_.begin() : std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) {
        return one.number == batch.step;
      });
  const bool is_asked = found != asked_.end() && (!is_there || batch.wanted[0] == found->key.value);
  if (!is_asked) {
    if (is_there) release(batch.handle);
    return fail(BF_PROTOCOL, "the service gave what was not asked for; open another store");
  }
  bf_value* const value = found->value;
  const std::uint64_t key = found->key.value;
  asked_.erase(found);
  const bool is_corrupt = is_there && (batch.marks[0] & batch::kCorrupt) != 0;
  if (is_there && (value == nullptr || is_corrupt)) release(batch.handle);
  if (value == nullptr) return BF_OK;
  *value = {};
  value->key = key;
  value->status = !is_there ? BF_ABSENT : is_corrupt ? BF_CORRUPT : BF_OK;
  if (value->status != BF_OK) return BF_OK;
  value->handle = batch.handle;
  value->arrays = batch.arrays;
  return BF_OK;
}

void Store::give_up() {
  for (Asked& one : asked_) one.value = nullptr;
}

bf_status Store::get(std::span<const std::uint64_t> keys, bf_value* values) {
  std::fill_n(values, keys.size(), bf_value{});
  std::size_t sent = 0;
  bf_status status = BF_OK;
  while (status == BF_OK && (sent < keys.size() || !asked_.empty())) {
    const std::size_t room =
        loader_->credits() - std::min<std::size_t>(loader_->credits(), asked_.size());
    const std::size_t next = std::min({keys.size() - sent, room, protocol::kKeysInRecord});
    // Many at a time: each message wakes the service.
    if (next > 0 && (next == keys.size() - sent || next >= loader_->credits() / 4)) {
      status = send(keys.subspan(sent, next), values + sent);
      sent += next;
      continue;
    }
    status = take();
  }
  if (status == BF_OK) return BF_OK;
  give_up();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (values[i].handle != 0) release(values[i].handle);
    values[i] = {};
  }
  return status;
}

}  // namespace batchflow::client
