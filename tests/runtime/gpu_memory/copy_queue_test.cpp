// What a device copies next.
#include "runtime/gpu/copy_queue.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "doctest/doctest.h"

namespace batchflow::test::copy_queue_test {
namespace {

using gpu::Bundle;
using gpu::Copy;
using gpu::CopyQueue;
using gpu::Piece;
using gpu::Urgency;
constexpr Bytes kMiB = Bytes{1} << 20;

// Addresses that are never read.
Piece piece_at(std::uint64_t at, Bytes bytes) {
  return {reinterpret_cast<std::byte*>(at), reinterpret_cast<const std::byte*>(at + (1ull << 40)),
          bytes};
}

Copy copy_of(Bytes bytes, Urgency urgency, std::uint64_t at = 4096) {
  return {{piece_at(at, bytes)}, urgency, nullptr, nullptr};
}

Bytes bytes_of(const Bundle& bundle) {
  Bytes sum = 0;
  for (const Piece& piece : bundle.pieces) sum += piece.bytes;
  return sum;
}

TEST_CASE("64 KiB wait for two of the 24 pieces of 200 MB, not for all") {
  CopyQueue queue({});
  queue.add(copy_of(200'000'000, Urgency::usual));
  unsigned begun = 0;
  while (queue.next()) ++begun;
  CHECK(begun == 2);  // as many as may be in flight
  queue.add(copy_of(64 << 10, Urgency::urgent));
  const auto small = queue.next();
  REQUIRE(small);
  CHECK(small->urgency == Urgency::urgent);
  CHECK(bytes_of(*small) == 64 << 10);
  CHECK_FALSE(queue.next());  // the two pieces before it are still in flight

  queue.confirm();
  queue.confirm();
  CHECK(queue.take_finished().empty());
  queue.confirm();
  auto finished = queue.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].copy.urgency == Urgency::urgent);
  for (; queue.next(); queue.confirm()) ++begun;
  CHECK(begun == 24);
  finished = queue.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].problem.empty());
  CHECK_FALSE(queue.has_waiting());
  CHECK_FALSE(queue.has_in_flight());
}

TEST_CASE("nothing less urgent begins while something more urgent waits") {
  CopyQueue queue({});
  queue.add(copy_of(64 * kMiB, Urgency::urgent));
  queue.add(copy_of(64 * kMiB, Urgency::usual));
  queue.add(copy_of(64 * kMiB, Urgency::background));
  std::string order;
  const auto begin_all = [&] {
    while (const auto bundle = queue.next())
      order += "ubg"[static_cast<std::size_t>(bundle->urgency)];
  };
  begin_all();
  CHECK(order == "uu");
  for (int i = 0; i < 24; ++i) {
    queue.confirm();
    begin_all();
  }
  CHECK(order == "uuuuuuuubbbbbbbbgggggggg");
  CHECK(queue.take_finished().size() == 3);
}

TEST_CASE("urgent copies do not wait until there is room for others") {
  CopyQueue queue({});
  queue.add(copy_of(64 * kMiB, Urgency::background));
  CHECK(queue.next());
  CHECK(queue.next());
  CHECK_FALSE(queue.next());
  queue.add(copy_of(64 * kMiB, Urgency::usual));
  CHECK(queue.next());
  CHECK(queue.next());
  CHECK_FALSE(queue.next());
  queue.add(copy_of(1000, Urgency::urgent));
  const auto bundle = queue.next();
  REQUIRE(bundle);
  CHECK(bundle->urgency == Urgency::urgent);
}

TEST_CASE("small pieces go together, large ones alone") {
  gpu::CopySettings settings;
  settings.pieces_in_flight = 100;
  CopyQueue queue(settings);
  Copy many;
  for (std::uint64_t i = 0; i < 600; ++i) many.pieces.push_back(piece_at(i << 20, 10'000));
  queue.add(std::move(many));
  queue.add(copy_of(50'000, Urgency::usual, 1ull << 33));  // of another copy, in the same bundle
  queue.add(copy_of(20 * kMiB, Urgency::usual, 1ull << 34));
  std::vector<std::size_t> counts;
  std::vector<Bytes> bytes;
  while (const auto bundle = queue.next()) {
    counts.push_back(bundle->pieces.size());
    bytes.push_back(bytes_of(*bundle));
  }
  CHECK(counts == std::vector<std::size_t>{512, 89, 1, 1, 1});
  CHECK(bytes == std::vector<Bytes>{5'120'000, 930'000, 8 * kMiB, 8 * kMiB, 4 * kMiB});
  for (int i = 0; i < 5; ++i) queue.confirm();
  CHECK(queue.take_finished().size() == 3);
}

TEST_CASE("small pieces do not make a bundle larger than a piece may be") {
  CopyQueue queue({});
  Copy many;
  for (std::uint64_t i = 0; i < 20; ++i) many.pieces.push_back(piece_at(i << 20, kMiB));
  queue.add(std::move(many));
  const auto bundle = queue.next();
  REQUIRE(bundle);
  CHECK(bytes_of(*bundle) == 8 * kMiB);
}

TEST_CASE("every byte is copied once, from its place to its place") {
  Random random(7);
  CopyQueue queue({});
  std::map<std::uint64_t, std::uint64_t> wanted, got;  // where a part begins, and where it ends
  std::uint64_t at = 1 << 20;
  for (int i = 0; i < 200; ++i) {
    Copy copy;
    copy.urgency = static_cast<Urgency>(random.below(3));
    for (std::uint64_t n = random.below(5); n > 0; --n) {
      const Bytes bytes = random.below(random.below(4) == 0 ? 40 * kMiB : 100'000);
      copy.pieces.push_back(piece_at(at, bytes));
      if (bytes > 0) wanted[at] = at + bytes;
      at += bytes + 1;
    }
    queue.add(std::move(copy));
  }
  while (queue.has_waiting() || queue.has_in_flight()) {
    const auto bundle = queue.next();
    if (!bundle || random.below(3) == 0) queue.confirm();
    if (!bundle) continue;
    for (const Piece& piece : bundle->pieces) {
      const auto to = reinterpret_cast<std::uint64_t>(piece.to);
      CHECK(reinterpret_cast<std::uint64_t>(piece.from) == to + (1ull << 40));
      got[to] = to + piece.bytes;
    }
  }
  std::map<std::uint64_t, std::uint64_t> joined;
  for (const auto& [begin, end] : got) {
    if (!joined.empty() && joined.rbegin()->second == begin)
      joined.rbegin()->second = end;
    else
      joined[begin] = end;
  }
  CHECK(joined == wanted);
  CHECK(queue.take_finished().size() == 200);  // those without bytes too
}

TEST_CASE("a bundle that does not begin fails its copies, and no others") {
  CopyQueue queue({});
  queue.add(copy_of(20 * kMiB, Urgency::usual));
  queue.add(copy_of(20 * kMiB, Urgency::usual));
  REQUIRE(queue.next());
  REQUIRE(queue.next());
  queue.refuse("refused");
  CHECK(queue.take_finished().empty());  // its first piece is still in flight
  queue.confirm();
  auto finished = queue.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].problem == "refused");
  while (queue.next()) queue.confirm();
  finished = queue.take_finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].problem.empty());
}

TEST_CASE("when the device is lost every copy fails once") {
  CopyQueue queue({});
  for (int i = 0; i < 5; ++i) {
    queue.add(copy_of(20 * kMiB, Urgency::usual));
    queue.add(copy_of(1000, Urgency::background));
  }
  REQUIRE(queue.next());
  REQUIRE(queue.next());
  queue.fail_all("lost");
  const auto finished = queue.take_finished();
  CHECK(finished.size() == 10);
  for (const auto& one : finished) CHECK(one.problem == "lost");
  CHECK_FALSE(queue.has_in_flight());
  CHECK_FALSE(queue.has_waiting());
}

}  // namespace
}  // namespace batchflow::test::copy_queue_test
