#include "tests/policies/reference_caches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

namespace batchflow::test {
namespace {

struct Entry {
  std::uint32_t item;
  std::uint64_t size;
  std::uint64_t uses = 0;
};
using Queue = std::vector<Entry>;  // front: oldest, back: newest

std::uint64_t bytes(const Queue& queue) {
  std::uint64_t sum = 0;
  for (const Entry& entry : queue) sum += entry.size;
  return sum;
}
Queue::iterator find(Queue& queue, std::uint32_t item) {
  return std::find_if(queue.begin(), queue.end(), [&](const Entry& e) { return e.item == item; });
}
bool contains(Queue& queue, std::uint32_t item) {
  return find(queue, item) != queue.end();
}
Entry take(Queue& queue, Queue::iterator at) {
  const Entry entry = *at;
  queue.erase(at);
  return entry;
}
Entry take_oldest(Queue& queue) {
  return take(queue, queue.begin());
}
void to_newest(Queue& queue, std::uint32_t item) {
  queue.push_back(take(queue, find(queue, item)));
}

// `hit(request)` says whether it was a hit; `miss(request)` does the rest. Counting is the same for
// all.
class Cache {
 public:
  explicit Cache(std::uint64_t capacity) : capacity_(capacity) {}
  virtual ~Cache() = default;
  virtual bool hit(const Request& request, std::uint64_t now) = 0;
  virtual void miss(const Request& request, std::uint64_t now) = 0;

 protected:
  std::uint64_t capacity_;
};

// Policies with one queue: they differ in what a hit does and in which item leaves.
class OneQueue : public Cache {
 public:
  using Cache::Cache;
  bool hit(const Request& request, std::uint64_t) override {
    if (!contains(queue_, request.item)) return false;
    used(request.item);
    return true;
  }
  void miss(const Request& request, std::uint64_t) override {
    if (request.size > capacity_) return;
    while (bytes(queue_) + request.size > capacity_) evict();
    queue_.push_back({request.item, request.size});
  }
  virtual void used(std::uint32_t) {}
  virtual void evict() { take_oldest(queue_); }

 protected:
  Queue queue_;
};
using Fifo = OneQueue;

class Lru : public OneQueue {
  using OneQueue::OneQueue;
  void used(std::uint32_t item) override { to_newest(queue_, item); }
};
class Mru : public Lru {
  using Lru::Lru;
  void evict() override { queue_.pop_back(); }
};
class Clock : public OneQueue {
  using OneQueue::OneQueue;
  void used(std::uint32_t item) override { find(queue_, item)->uses = 1; }
  void evict() override {
    while (queue_.front().uses == 1) {
      queue_.front().uses = 0;
      to_newest(queue_, queue_.front().item);
    }
    take_oldest(queue_);
  }
};
class Sieve : public OneQueue {
  using OneQueue::OneQueue;
  void used(std::uint32_t item) override { find(queue_, item)->uses = 1; }
  void evict() override {
    if (hand_ >= queue_.size()) hand_ = 0;
    while (queue_[hand_].uses == 1) {
      queue_[hand_].uses = 0;
      hand_ = (hand_ + 1) % queue_.size();
    }
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(hand_));
    if (hand_ == queue_.size()) hand_ = SIZE_MAX;  // the newest left: start from the oldest again
  }
  std::size_t hand_ = SIZE_MAX;
};
class Lfu : public OneQueue {
  using OneQueue::OneQueue;
  void used(std::uint32_t item) override {
    to_newest(queue_, item);
    ++queue_.back().uses;
  }
  void evict() override {  // the first of the least used: the queue is in order of access
    take(queue_, std::min_element(queue_.begin(), queue_.end(),
                                  [](const Entry& a, const Entry& b) { return a.uses < b.uses; }));
  }
};
class MinIo : public OneQueue {
  using OneQueue::OneQueue;
  void miss(const Request& request, std::uint64_t) override {
    if (bytes(queue_) + request.size <= capacity_) queue_.push_back({request.item, request.size});
  }
};

class S3Fifo : public Cache {
 public:
  explicit S3Fifo(std::uint64_t capacity, bool warm = false) : Cache(capacity), warm_(warm) {}
  bool hit(const Request& request, std::uint64_t) override {
    for (Queue* queue : {&small_, &main_}) {
      if (!contains(*queue, request.item)) continue;
      ++find(*queue, request.item)->uses;
      return true;
    }
    return false;
  }
  void miss(const Request& request, std::uint64_t) override {
    const bool was_ghost = contains(ghost_, request.item);
    if (was_ghost) take(ghost_, find(ghost_, request.item));
    if (request.size > capacity_ || request.size > small_capacity_) return;
    while (bytes(small_) + bytes(main_) + request.size > capacity_) evict();
    if (request.size == small_capacity_) return;
    const bool overflows = warm_ && !evicted_ && bytes(small_) >= small_capacity_;
    (was_ghost || overflows ? main_ : small_).push_back({request.item, request.size});
  }

 private:
  void evict() {
    evicted_ = true;
    if (bytes(main_) > main_capacity_ || small_.empty()) {
      for (;;) {
        Entry entry = take_oldest(main_);
        if (entry.uses == 0) return;
        entry.uses = std::min<std::uint64_t>(entry.uses, 3) - 1;
        main_.push_back(entry);
      }
    }
    while (!small_.empty()) {
      Entry entry = take_oldest(small_);
      if (entry.uses < 2) {
        if (entry.size > ghost_capacity_) return;
        while (bytes(ghost_) + entry.size > ghost_capacity_) take_oldest(ghost_);
        ghost_.push_back(entry);
        return;
      }
      entry.uses = 0;
      main_.push_back(entry);
    }
  }

  bool warm_;
  bool evicted_ = false;
  std::uint64_t small_capacity_ = static_cast<std::uint64_t>(static_cast<double>(capacity_) * 0.1);
  std::uint64_t main_capacity_ = capacity_ - small_capacity_;
  std::uint64_t ghost_capacity_ = static_cast<std::uint64_t>(static_cast<double>(capacity_) * 0.9);
  Queue small_, main_, ghost_;
};

class TwoQ : public Cache {
 public:
  using Cache::Cache;
  bool hit(const Request& request, std::uint64_t) override {
    if (contains(main_, request.item)) {
      to_newest(main_, request.item);
      return true;
    }
    return contains(in_, request.item);
  }
  void miss(const Request& request, std::uint64_t) override {
    const bool was_ghost = contains(out_, request.item);
    if (was_ghost) take(out_, find(out_, request.item));
    if (request.size > capacity_ / 4) return;
    while (bytes(in_) + bytes(main_) + request.size > capacity_) {
      if (bytes(in_) > capacity_ / 4) {
        const Entry entry = take_oldest(in_);
        if (entry.size > capacity_ / 2) continue;
        while (bytes(out_) + entry.size > capacity_ / 2) take_oldest(out_);
        out_.push_back(entry);
      } else {
        take_oldest(main_);
      }
    }
    if (!was_ghost) return in_.push_back({request.item, request.size});
    while (bytes(main_) + request.size > capacity_ - capacity_ / 4) take_oldest(main_);
    main_.push_back({request.item, request.size});
  }

 private:
  Queue in_, out_, main_;
};

class Arc : public Cache {
 public:
  using Cache::Cache;
  bool hit(const Request& request, std::uint64_t) override {
    for (Queue* queue : {&t1_, &t2_}) {
      if (!contains(*queue, request.item)) continue;
      t2_.push_back(take(*queue, find(*queue, request.item)));
      return true;
    }
    return false;
  }
  void miss(const Request& request, std::uint64_t) override {
    const auto b1 = static_cast<double>(bytes(b1_));
    const auto b2 = static_cast<double>(bytes(b2_));
    const bool in_b1 = contains(b1_, request.item);
    const bool in_b2 = contains(b2_, request.item);
    if (in_b1) {
      p_ = std::min(p_ + std::max(1.0, b2 / b1), static_cast<double>(capacity_));
      take(b1_, find(b1_, request.item));
    } else if (in_b2) {
      p_ = std::max(p_ - std::max(1.0, b1 / b2), 0.0);
      take(b2_, find(b2_, request.item));
    }
    if (request.size > capacity_) return;
    while (bytes(t1_) + bytes(t2_) + request.size > capacity_) {
      if (in_b1 || in_b2) {
        replace(in_b2);
      } else if (bytes(t1_) + bytes(b1_) + request.size > capacity_) {
        if (b1_.empty()) {
          take_oldest(t1_);
        } else {
          take_oldest(b1_);
          replace(false);
        }
      } else {
        const auto all = bytes(t1_) + bytes(t2_) + bytes(b1_) + bytes(b2_);
        if (all >= 2 * capacity_ && !b2_.empty()) take_oldest(b2_);
        replace(false);
      }
    }
    (in_b1 || in_b2 ? t2_ : t1_).push_back({request.item, request.size});
  }

 private:
  void replace(bool in_b2) {
    const auto t1 = static_cast<double>(bytes(t1_));
    if ((t1 > 0 && (t1 > p_ || (t1 == p_ && in_b2))) || t2_.empty()) {
      b1_.push_back(take_oldest(t1_));
    } else {
      b2_.push_back(take_oldest(t2_));
    }
  }
  double p_ = 0;
  Queue t1_, t2_, b1_, b2_;
};

// Policies that give each resident a value and evict the lowest; of equals the item accessed
// earlier.
class ByValue : public Cache {
 public:
  using Cache::Cache;
  bool hit(const Request& request, std::uint64_t now) override {
    if (!residents_.contains(request.item)) return false;
    Resident& resident = residents_[request.item];
    ++resident.uses;
    resident.accessed = now;
    resident.next = request.next;
    rate(resident);
    return true;
  }
  void miss(const Request& request, std::uint64_t now) override {
    if (request.size > capacity_) return;
    while (used_ + request.size > capacity_) evict();
    insert(request, now);
  }

 protected:
  struct Resident {
    std::uint64_t size = 0;
    std::uint64_t uses = 1;
    std::uint64_t accessed = 0;
    std::uint64_t next = 0;
    double value = 0;
  };
  virtual void rate(Resident& resident) = 0;
  virtual void left(const Resident&) {}
  void insert(const Request& request, std::uint64_t now) {
    Resident resident{request.size, 1, now, request.next, 0};
    rate(resident);
    residents_[request.item] = resident;
    used_ += request.size;
  }
  void evict() {
    const auto lowest =
        std::min_element(residents_.begin(), residents_.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second.value, a.second.accessed) <
                 std::pair(b.second.value, b.second.accessed);
        });
    used_ -= lowest->second.size;
    left(lowest->second);
    residents_.erase(lowest);
  }
  std::map<std::uint32_t, Resident> residents_;
  std::uint64_t used_ = 0;
};
class Gdsf : public ByValue {
  using ByValue::ByValue;
  void rate(Resident& r) override {
    r.value = inflation_ + static_cast<double>(r.uses) * 1e6 / static_cast<double>(r.size);
  }
  void left(const Resident& resident) override { inflation_ = resident.value; }
  double inflation_ = 0;
};
class Belady : public ByValue {
 protected:
  using ByValue::ByValue;
  void rate(Resident& resident) override { resident.value = -static_cast<double>(resident.next); }
};
class BeladyBypass : public Belady {
  using Belady::Belady;
  void miss(const Request& request, std::uint64_t now) override {
    if (request.size > capacity_) return;
    insert(request, now);
    while (used_ > capacity_) evict();
  }
};

using Make = std::function<std::unique_ptr<Cache>(std::uint64_t)>;
template <class Type>
Make make() {
  return [](std::uint64_t capacity) { return std::unique_ptr<Cache>(new Type(capacity)); };
}
const std::map<std::string, Make>& makers() {
  static const std::map<std::string, Make> all = {
      {"fifo", make<Fifo>()},
      {"lru", make<Lru>()},
      {"mru", make<Mru>()},
      {"clock", make<Clock>()},
      {"sieve", make<Sieve>()},
      {"lfu", make<Lfu>()},
      {"minio", make<MinIo>()},
      {"s3fifo", make<S3Fifo>()},
      {"2q", make<TwoQ>()},
      {"arc", make<Arc>()},
      {"gdsf", make<Gdsf>()},
      {"belady", make<Belady>()},
      {"belady-bypass", make<BeladyBypass>()},
      {"s3fifo-warm",
       [](std::uint64_t capacity) { return std::make_unique<S3Fifo>(capacity, true); }},
  };
  return all;
}

}  // namespace

const std::vector<std::string>& reference_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto& [name, make] : makers()) result.push_back(name);
    return result;
  }();
  return names;
}

Missed reference_misses(const std::string& policy, const std::vector<Request>& trace,
                        std::uint64_t capacity) {
  const std::unique_ptr<Cache> cache = makers().at(policy)(capacity);
  Missed missed;
  for (std::size_t now = 0; now < trace.size(); ++now) {
    if (cache->hit(trace[now], now)) continue;
    ++missed.requests;
    missed.bytes += trace[now].size;
    cache->miss(trace[now], now);
  }
  return missed;
}

TEST_CASE("the references count what can be counted by hand") {
  // 1 2 3 1 4 1 with room for two.
  const std::vector<Request> trace = {{1, 1, 3}, {2, 1, kNever}, {3, 1, kNever},
                                      {1, 1, 5}, {4, 1, kNever}, {1, 1, kNever}};
  CHECK(reference_misses("fifo", trace, 2).requests == 5);
  CHECK(reference_misses("lru", trace, 2).requests == 5);
  CHECK(reference_misses("minio", trace, 2).requests == 4);
  CHECK(reference_misses("belady", trace, 2).requests == 4);
  CHECK(reference_misses("lru", trace, 3).requests == 4);
}

}  // namespace batchflow::test
