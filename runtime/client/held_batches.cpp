#include "runtime/client/held_batches.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::client {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::unique_ptr<HeldBatch>> batches;
  std::uint64_t last = 0;
  std::atomic<std::uint32_t> generation = 0;
  // Batches with handles up to this one are of a parent process.
  std::uint64_t of_parent = 0;
};

// It is never destroyed: tensors may outlive everything else at the end of a process.
Table& table() {
  static Table* const only = [] {
    static Table* made = nullptr;
    made = new Table;
    pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); },
                   [] {
                     made->generation.fetch_add(1);
                     made->of_parent = made->last;
                     made->mutex.unlock();
                   });
    return made;
  }();
  return *only;
}

}  // namespace

KeptSlot::~KeptSlot() {
  if (generation_ != process_generation()) return;
  if (in_place_) {
    link_->released_in_place(step_);
  } else {
    link_->released_copied(step_);
  }
}

AlignedBytes make_aligned(Bytes bytes) {
  if (BF_FAILPOINT("client.memory")) throw std::bad_alloc();
  return AlignedBytes(static_cast<std::byte*>(::operator new[](bytes, AlignedDelete::kAlignment)));
}

std::uint32_t process_generation() {
  return table().generation.load(std::memory_order_relaxed);
}

std::uint64_t hold(std::unique_ptr<HeldBatch> batch) {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.batches.emplace(++all.last, std::move(batch));
  return all.last;
}

void release(std::uint64_t handle) {
  Table& all = table();
  std::unique_ptr<HeldBatch> batch;
  bool of_parent = false;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.batches.find(handle);
    if (found == all.batches.end()) return;
    batch = std::move(found->second);
    all.batches.erase(found);
    of_parent = handle <= all.of_parent;
  }
  if (batch->slab && !batch->kept && !of_parent) batch->link->released_in_place(batch->step);
}

std::string pin(std::uint64_t handle, int device) {
  std::shared_ptr<const Slab> slab;
  {
    Table& all = table();
    const std::lock_guard lock(all.mutex);
    const auto found = all.batches.find(handle);
    if (found == all.batches.end()) return "no such batch is held";
    if (handle <= all.of_parent) return "the batch is one of the parent process";
    slab = found->second->slab;
  }
  if (!slab) return "the batch is a copy, which does not lie in the service's memory";
  return slab->pinning.pin(slab->mapping.memory(), device);
}

}  // namespace batchflow::client
