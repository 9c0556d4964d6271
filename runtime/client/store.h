// Samples by their keys: the class behind bf_store (docs/store.md).
//
// It is a loader of a keyed job. It remembers the keys that it has asked for and not been given: it
// asks a service that comes back for them again, so each key is answered once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "runtime/client/batchflow.h"
#include "runtime/client/loader.h"

namespace batchflow::client {

class Store {
 public:
  static bf_status open(const bf_store_options& options, std::unique_ptr<Store>& out);

  // The samples of these keys, in their order. Another status than BF_OK: none of them is held.
  bf_status get(std::span<const std::uint64_t> keys, bf_value* values);
  bf_status find(const char* name, std::uint64_t& key) { return loader_->find(name, key); }
  void info(bf_loader_info& out) const { loader_->info(out); }
  void interrupt() { loader_->interrupt(); }
  bool is_of_parent() const { return loader_->is_of_parent(); }

 private:
  struct Asked {
    SampleId key;
    std::uint64_t number = 0;   // as the service counts
    bf_value* value = nullptr;  // where it goes; null: the call that asked has given up
  };
  bf_status send(std::span<const std::uint64_t> keys, bf_value* values);
  bf_status send_again();
  bf_status take();
  void give_up();

  std::unique_ptr<Loader> loader_;
  std::deque<Asked> asked_;  // oldest first
  std::uint64_t number_ = 0;
};

}  // namespace batchflow::client

struct bf_store {
  std::unique_ptr<batchflow::client::Store> store;
};
