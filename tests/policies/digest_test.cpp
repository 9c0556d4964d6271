// Determinism of every policy of every kind: the same questions get the same answers in another
// instance, whatever other instances are asked meanwhile, and in another process (the ctest
// policies.two_processes compares what is printed here).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>

#include "core/engine/share.h"
#include "tests/policies/random_views.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::digest_test {

namespace {

// Asks a policy again and again, and makes one number of its answers.
class Questioner {
 public:
  Questioner(const engine::PolicyChoice& choice, std::uint64_t seed) : random_(hash(seed, 6)) {
    switch (choice.entry->kind()) {
      case engine::PolicyKind::allocation:
        allocation_ = make<engine::MakeAllocation>(choice, seed);
        break;
      case engine::PolicyKind::eviction:
        share_ = std::make_unique<engine::Share>(
            kItems, kCapacity,
            std::get<engine::MakeEviction>(choice.entry->make)(
                {kItems, kCapacity, Random(seed), choice.parameters}));
        break;
      case engine::PolicyKind::selection:
        selection_ = make<engine::MakeSelection>(choice, seed);
        break;
      case engine::PolicyKind::dispatch:
        dispatch_ = make<engine::MakeDispatch>(choice, seed);
        break;
      case engine::PolicyKind::scaling:
        scaling_ = make<engine::MakeScaling>(choice, seed);
        break;
    }
  }

  void ask() {
    if (allocation_) {
      const auto shares = random_shares(random_, 1 + random_.below(20));
      std::vector<Slots> slots(shares.size(), 0);
      allocation_->allocate(random_place(random_, shares), slots);
      for (const Slots slot : slots) note(slot);
    } else if (share_) {
      access();
    } else if (selection_) {
      const auto candidates = random_selection(random_, 1 + random_.below(64));
      note(selection_->choose({JobId(1), Order::relaxed, candidates}));
    } else if (dispatch_) {
      const auto candidates = random_work(random_, 1 + random_.below(64));
      note(dispatch_->next({Instant{}, candidates}));
    } else {
      note(scaling_->workers(random_node(random_)));
      note(scaling_->depth(random_job(random_)));
    }
  }
  std::uint64_t digest() const { return digest_; }

 private:
  static constexpr std::size_t kItems = 200;
  static constexpr Slots kCapacity = 60;

  void access() {
    const std::uint64_t item = std::min(random_.below(kItems), random_.below(kItems));
    const std::uint64_t next =
        random_.below(3) == 0 ? engine::kNeverUsed : ++asked_ + random_.below(300);
    evicted_.clear();
    note(static_cast<std::uint64_t>(
        share_->access({ItemId(static_cast<std::uint32_t>(item)), 1 + item % 3, next}, evicted_)));
    for (const ItemId gone : evicted_) note(gone.value);
  }
  void note(std::uint64_t value) { digest_ = hash(digest_, value); }

  Random random_;
  std::unique_ptr<engine::AllocationPolicy> allocation_;
  std::unique_ptr<engine::Share> share_;
  std::unique_ptr<engine::SelectionPolicy> selection_;
  std::unique_ptr<engine::DispatchPolicy> dispatch_;
  std::unique_ptr<engine::ScalingPolicy> scaling_;
  std::vector<ItemId> evicted_;
  std::uint64_t asked_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace

TEST_SUITE("digests") {
  TEST_CASE("the same questions get the same answers") {
    const bool print = std::getenv("BATCHFLOW_PRINT_DIGESTS") != nullptr;
    for (const engine::PolicyEntry* entry : tested_policies().entries()) {
      for (const engine::PolicyChoice& choice : variants(*entry)) {
        const std::string name =
            fmt::format("{}={}", engine::policy_kind_name(entry->kind()), choice.text());
        CAPTURE(name);
        Questioner one(choice, 11), other(choice, 11), third(choice, 12);
        for (int ask = 0; ask < 500; ++ask) one.ask();
        for (int ask = 0; ask < 500; ++ask) {
          third.ask();
          other.ask();
        }
        CHECK(one.digest() == other.digest());
        if (print) std::cout << fmt::format("digest {} {:016x}\n", name, one.digest());
      }
    }
  }
}

}  // namespace batchflow::test::digest_test
