// Tests of the tests: the commands of a right engine, spoilt one promise at a time on their way to
// the clients. Machine, clients and checker must notice each.
#include <doctest/doctest.h>

#include <deque>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::broken_engine_test {

namespace {

Scenario two_ranks(Order order) {
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 32 * 512;
  scenario.datasets[0].corrupt = {SampleId(3)};
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1), NodeId(1)};
  job.batch_samples = 5;  // 7 steps an epoch, the last one of 2 samples a rank
  job.epochs = 2;
  job.scores_in_100 = 50;
  scenario.jobs = {job};
  return scenario;
}

// Changes the commands of one step, once; what it puts there must live.
using Spoil = std::function<bool(std::vector<engine::Command>&)>;

enum class Result { right, noticed, untouched };

Result result_of(Order order, const Spoil& spoil) {
  bool spoilt = false;
  Hooks hooks;
  hooks.spoil = [&](std::vector<engine::Command>& commands) {
    if (!spoilt) spoilt = spoil(commands);
  };
  try {
    Driver(two_ranks(order), policies::policy_list(), hooks).run();
    return spoilt ? Result::right : Result::untouched;
  } catch (const Violation&) {
    return spoilt ? Result::noticed : Result::right;
  }
}

std::deque<std::vector<order::Slice>> slice_lists;  // NOLINT: what spoilt commands refer to

// Applies `change` to the delivery of a step to a rank.
Spoil to_delivery(std::uint64_t step, Rank rank, std::function<void(engine::Deliver&)> change) {
  return [=](std::vector<engine::Command>& commands) {
    for (engine::Command& command : commands) {
      auto* order = std::get_if<engine::Deliver>(&command);
      if (order == nullptr || order->step != step || order->rank != rank) continue;
      change(*order);
      return true;
    }
    return false;
  };
}
Spoil to_slices(std::uint64_t step, Rank rank,
                std::function<void(std::vector<order::Slice>&)> change) {
  return to_delivery(step, rank, [=](engine::Deliver& order) {
    std::vector<order::Slice> slices(order.slices.begin(), order.slices.end());
    change(slices);
    slice_lists.push_back(std::move(slices));
    order.slices = slice_lists.back();
  });
}
// Removes or doubles the first command of its kind that `which` names.
template <class Kind>
Spoil times(std::size_t copies, std::function<bool(const Kind&)> which) {
  return [=](std::vector<engine::Command>& commands) {
    for (auto at = commands.begin(); at != commands.end(); ++at) {
      const auto* order = std::get_if<Kind>(&*at);
      if (order == nullptr || !which(*order)) continue;
      if (copies == 0) {
        commands.erase(at);
      } else {
        commands.insert(at, *at);
      }
      return true;
    }
    return false;
  };
}

// A batch of the first epoch that is handed over again in place of one of the second.
Spoil repeat() {
  struct Seen {
    engine::Deliver order;
    std::vector<order::Slice> slices;
    std::vector<SampleId> samples;
  };
  auto seen = std::make_shared<std::optional<Seen>>();
  return [seen](std::vector<engine::Command>& commands) {
    for (engine::Command& command : commands) {
      auto* order = std::get_if<engine::Deliver>(&command);
      if (order == nullptr || order->rank != 0) continue;
      if (order->step == 2 && !*seen) {
        *seen = Seen{*order,
                     {order->slices.begin(), order->slices.end()},
                     {order->samples.begin(), order->samples.end()}};
      }
      if (order->epoch != 1 || !*seen) continue;
      const engine::Deliver now = *order;
      *order = (*seen)->order;
      order->slices = (*seen)->slices;
      order->samples = (*seen)->samples;
      order->request = now.request;
      order->step = now.step;
      order->epoch = now.epoch;
      return true;
    }
    return false;
  };
}

}  // namespace

TEST_CASE("each promise broken in a delivery is noticed") {
  for (const Order order : {Order::strict, Order::relaxed, Order::sequential, Order::weighted}) {
    CAPTURE(static_cast<int>(order));
    const auto noticed = [&](const Spoil& spoil) {
      return result_of(order, spoil) == Result::noticed;
    };
    CHECK(result_of(order, [](auto&) { return true; }) == Result::right);
    // twice, not at all, to another, in another step or epoch
    CHECK(noticed(
        times<engine::Deliver>(2, [](const engine::Deliver& one) { return one.step == 2; })));
    CHECK(noticed([](std::vector<engine::Command>& commands) {
      for (engine::Command& command : commands) {
        const auto* order_found = std::get_if<engine::Deliver>(&command);
        if (order_found == nullptr || order_found->step != 2) continue;
        engine::Deliver again = *order_found;  // as a batch of its own
        again.request.id = RequestId(again.request.id.value ^ std::uint64_t{1} << 40);
        commands.emplace_back(again);
        return true;
      }
      return false;
    }));
    CHECK(noticed(
        times<engine::Deliver>(0, [](const engine::Deliver& one) { return one.step == 2; })));
    CHECK(noticed(to_delivery(2, 0, [](engine::Deliver& one) { one.rank = 1; })));
    CHECK(noticed(to_delivery(2, 0, [](engine::Deliver& one) { one.rank = 7; })));
    CHECK(noticed(to_delivery(2, 0, [](engine::Deliver& one) { one.step = 3; })));
    CHECK(noticed(to_delivery(2, 0, [](engine::Deliver& one) { one.epoch = 1; })));
    CHECK(noticed(to_delivery(2, 0, [](engine::Deliver& one) { one.job = JobId(77); })));
    CHECK(noticed(to_delivery(2, 0, [](engine::Deliver& one) { one.repeats = 1; })));
    CHECK(noticed(to_delivery(2, 0, [](engine::Deliver& one) { one.last_of_epoch = true; })));
    CHECK(noticed(to_delivery(6, 0, [](engine::Deliver& one) { one.last_of_epoch = false; })));
    // unequal counts, other samples, other draws, fillers where there are none
    CHECK(noticed(to_slices(2, 1, [](auto& slices) { --slices.back().to; })));
    CHECK(noticed(to_slices(2, 1, [](auto& slices) { slices.pop_back(); })));
    CHECK(noticed(to_slices(2, 1, [](auto& slices) { slices.push_back(slices.front()); })));
    CHECK(noticed(to_slices(2, 1, [](auto& slices) { slices.front().name.block ^= 1; })));
    CHECK(noticed(to_slices(2, 1, [](auto& slices) { ++slices.front().name.generation; })));
    CHECK(noticed(to_slices(2, 1, [](auto& slices) { ++slices.front().name.pass; })));
    CHECK(noticed(to_slices(2, 1, [](auto& slices) { slices.front().filler = true; })));
    CHECK(noticed(to_slices(6, 1, [](auto& slices) { slices.back().filler ^= true; })));
    CHECK(noticed(repeat()));
    // what stands in for a corrupt sample
    CHECK(noticed([](std::vector<engine::Command>& commands) {
      for (engine::Command& command : commands) {
        auto* one = std::get_if<engine::Deliver>(&command);
        if (one == nullptr || one->replacements.empty()) continue;
        one->replacements = {};
        return true;
      }
      return false;
    }));
  }
}

TEST_CASE("each promise broken beside deliveries is noticed") {
  for (const Order order : {Order::strict, Order::relaxed, Order::weighted}) {
    CAPTURE(static_cast<int>(order));
    const auto noticed = [&](const Spoil& spoil) {
      return result_of(order, spoil) == Result::noticed;
    };
    CHECK(noticed(times<engine::EpochEnded>(0, [](const engine::EpochEnded&) { return true; })));
    CHECK(noticed(times<engine::EpochEnded>(2, [](const engine::EpochEnded&) { return true; })));
    CHECK(noticed(times<engine::Admit>(0, [](const engine::Admit&) { return true; })));
    CHECK(noticed(times<engine::Admit>(2, [](const engine::Admit&) { return true; })));
    CHECK(noticed(times<engine::Prepare>(2, [](const engine::Prepare&) { return true; })));
    CHECK(noticed(times<engine::Prepare>(0, [](const engine::Prepare&) { return true; })));
    CHECK(noticed(times<engine::Read>(2, [](const engine::Read&) { return true; })));
    CHECK(noticed(times<engine::Read>(0, [](const engine::Read&) { return true; })));
    CHECK(noticed(times<engine::Transfer>(2, [](const engine::Transfer&) { return true; })));
    CHECK(noticed(times<engine::Transfer>(0, [](const engine::Transfer&) { return true; })));
    CHECK(noticed(times<engine::Release>(2, [](const engine::Release&) { return true; })));
    CHECK(noticed(times<engine::Release>(0, [](const engine::Release&) { return true; })));
    CHECK(noticed(times<engine::Drop>(2, [](const engine::Drop&) { return true; })));
    CHECK(
        noticed([](std::vector<engine::Command>& commands) {  // more samples than were acknowledged
          for (engine::Command& command : commands) {
            auto* one = std::get_if<engine::EpochEnded>(&command);
            if (one != nullptr) ++one->samples;
            if (one != nullptr) return true;
          }
          return false;
        }));
    CHECK(noticed([](std::vector<engine::Command>& commands) {  // a block that a rank is reading
      for (const engine::Command& command : commands) {
        const auto* one = std::get_if<engine::Deliver>(&command);
        if (one == nullptr) continue;
        commands.emplace_back(
            engine::Drop{one->share, one->place, Form::prepared, ItemId(0), one->slot});
        return true;
      }
      return false;
    }));
    CHECK(noticed(
        [](std::vector<engine::Command>& commands) {  // it was not asked for, and there is room
          commands.emplace_back(engine::Refuse{JobId(1), engine::Refusal::no_room, 1, 2});
          return true;
        }));
  }
}

}  // namespace batchflow::test::broken_engine_test
