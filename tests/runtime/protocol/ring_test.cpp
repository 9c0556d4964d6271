// Rings: each record is read once and in turn, and no reader sleeps through one. Whatever the other
// side writes into its pages, this side stays within its memory and says that the ring is broken.
#include "runtime/protocol/ring.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "runtime/protocol/ring_files.h"

namespace batchflow::test::ring_test {

namespace {

using namespace std::chrono_literals;

// Both rings, mapped once by the service and once by the job, as in two processes.
struct TwoSides {
  TwoSides() {
    std::string problem;
    files = protocol::make_rings(protocol::kRingLeast, problem);
    REQUIRE_MESSAGE(files, problem);
    job = protocol::map_rings(files.service_file, files.job_file, protocol::kRingLeast, problem);
    REQUIRE_MESSAGE(job, problem);
  }
  protocol::RingFiles files;
  protocol::Rings job;
};

std::vector<std::byte> record_of(std::uint64_t seed, std::size_t most = protocol::kRecordMost) {
  Random random(hash(7, seed));
  std::vector<std::byte> record(random.below(most + 1));
  for (std::byte& byte : record) byte = static_cast<std::byte>(random.draw());
  return record;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

protocol::RingFileHead* head_of(const protocol::Mapping& file) {
  return reinterpret_cast<protocol::RingFileHead*>(file.memory().data());
}

}  // namespace

TEST_CASE("ring: a writer that writes while it is read is read so many records, and no more") {
  TwoSides sides;
  protocol::RingWriter writer(sides.files.rings.to_job());
  protocol::RingReader reader(sides.job.to_job());
  const std::vector<std::byte> record(8);
  const auto more = [&] {
    REQUIRE(writer.write(record));
    writer.publish();
    return true;
  };
  more();
  int read = 0;
  for (int rounds = 1; rounds < 4; ++rounds) {
    CHECK(reader.read(100, [&](std::span<const std::byte>) {
      ++read;
      reader.free_read();
      return more();
    }));
    CHECK(read == rounds * 100);
  }
  CHECK_FALSE(reader.fall_asleep());  // the rest is there
  CHECK_FALSE(reader.read(100, [](std::span<const std::byte>) { return false; }));
  CHECK(reader.read(100, [](std::span<const std::byte>) { return true; }));
}

TEST_CASE("ring: records of any size come out as they went in, both ways, over many rounds") {
  TwoSides sides;
  const protocol::RingMemory ends[2][2] = {{sides.files.rings.to_job(), sides.job.to_job()},
                                           {sides.job.from_job(), sides.files.rings.from_job()}};
  for (const auto& [writers, readers] : ends) {
    protocol::RingWriter writer(writers);
    protocol::RingReader reader(readers);
    std::uint64_t written = 0;
    std::uint64_t read = 0;
    Random random(3);
    while (read < 2000) {
      while (written < 2000 && random.below(4) != 0 && writer.write(record_of(written))) ++written;
      CHECK_FALSE(writer.publish());  // the reader does not sleep
      while (const auto record = reader.next()) {
        REQUIRE(equal(*record, record_of(read)));
        ++read;
        if (random.below(8) == 0) break;
      }
      if (random.below(2) == 0) reader.free_read();
    }
    CHECK_FALSE(writer.broken());
    CHECK_FALSE(reader.broken());
  }
}

TEST_CASE(
    "ring: nothing is seen before it is published, nothing is overwritten before it is freed") {
  TwoSides sides;
  protocol::RingWriter writer(sides.files.rings.to_job());
  protocol::RingReader reader(sides.job.to_job());
  const std::vector<std::byte> record(1000, std::byte{7});
  std::size_t room = 0;
  while (writer.write(record)) ++room;
  CHECK(room == protocol::kRingLeast / 1008);
  CHECK_FALSE(writer.broken());
  CHECK_FALSE(reader.next());
  writer.publish();
  for (std::size_t i = 0; i < room; ++i) REQUIRE(reader.next());
  CHECK_FALSE(reader.next());
  CHECK_FALSE(writer.write(record));
  reader.free_read();
  CHECK(writer.write(record));
}

TEST_CASE("ring: a reader that sleeps is woken, and only then") {
  TwoSides sides;
  protocol::RingWriter writer(sides.files.rings.to_job());
  protocol::RingReader reader(sides.job.to_job());
  const std::vector<std::byte> record(8);
  CHECK(reader.fall_asleep());
  REQUIRE(writer.write(record));
  CHECK(writer.publish());
  REQUIRE(writer.write(record));
  CHECK_FALSE(writer.publish());  // it is being woken already
  reader.awake();
  CHECK(reader.next());
  CHECK(reader.next());
  CHECK(reader.fall_asleep());
  REQUIRE(writer.write(record));
  CHECK(writer.publish());  // another sleep
  reader.awake();
  CHECK(reader.next());
  REQUIRE(writer.write(record));
  CHECK_FALSE(writer.publish());
  CHECK_FALSE(reader.fall_asleep());
  CHECK(reader.wait(1'000'000'000));
  CHECK(reader.next());
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(reader.wait(20'000'000));
  CHECK(std::chrono::steady_clock::now() - begin >= 15ms);
}

// Plain memory, so that ThreadSanitizer knows it as the same on both sides.
TEST_CASE("ring: two threads, sleeping and waking at every pace, lose nothing") {
  protocol::RingFileHead head{};
  std::vector<std::uint64_t> records(protocol::kRingLeast / 8);
  const protocol::RingMemory memory{&head.writer, &head.reader,
                                    std::as_writable_bytes(std::span<std::uint64_t>(records))};
  protocol::RingWriter writer(memory);
  protocol::RingReader reader(memory);
  constexpr std::uint64_t kRecords = 10'000;
  std::thread service([&] {
    Random random(5);
    for (std::uint64_t i = 0; i < kRecords;) {
      if (writer.write(record_of(i, 300))) {
        ++i;
        if (random.below(3) != 0) continue;
      }
      if (writer.publish()) writer.wake();
      if (random.below(50) == 0) std::this_thread::sleep_for(50us);
      if (random.below(4) == 0) std::this_thread::yield();
    }
    if (writer.publish()) writer.wake();
  });
  std::uint64_t read = 0;
  int idle = 0;
  while (read < kRecords && idle < 3) {
    while (const auto record = reader.next()) {
      REQUIRE(equal(*record, record_of(read, 300)));
      ++read;
    }
    reader.free_read();
    // A wake that is lost shows as a sleep of five seconds.
    const auto begin = std::chrono::steady_clock::now();
    if (read < kRecords && !reader.wait(5'000'000'000) &&
        std::chrono::steady_clock::now() - begin > 4s) {
      ++idle;
    }
  }
  service.join();
  CHECK(read == kRecords);
  CHECK(idle == 0);
}

TEST_CASE("ring: a number that cannot be right breaks the ring for good") {
  const std::vector<std::byte> record(100);
  const auto reads_after = [&](std::uint64_t tail, std::uint64_t size_word) {
    TwoSides sides;
    protocol::RingReader reader(sides.files.rings.from_job());
    std::memcpy(sides.job.job_file.memory().data() + protocol::kRingRecordsAt, &size_word,
                sizeof size_word);
    head_of(sides.job.job_file)->writer.tail.store(tail);
    const bool found = reader.next().has_value();
    CHECK(reader.broken() == !found);
    // Put right, it stays broken.
    protocol::RingWriter writer(sides.job.from_job());
    for (int i = 0; i < 2; ++i) REQUIRE(writer.write(record));
    writer.publish();
    CHECK(reader.next().has_value() == found);
    CHECK(reader.broken() == !found);
    return found;
  };
  CHECK(reads_after(112, 100));
  CHECK_FALSE(reads_after(113, 100));                       // not a multiple of 8
  CHECK_FALSE(reads_after(protocol::kRingLeast + 8, 100));  // more than there is
  CHECK_FALSE(reads_after(~std::uint64_t{7}, 100));
  CHECK_FALSE(reads_after(112, 105));  // beyond the tail
  CHECK_FALSE(reads_after(112, protocol::kRecordMost + 1));
  CHECK_FALSE(reads_after(protocol::kRingLeast, protocol::kRecordMost + 1));
  CHECK_FALSE(reads_after(112, ~std::uint64_t{0}));  // skips what has not been written
  CHECK_FALSE(
      reads_after(protocol::kRingLeast, ~std::uint64_t{0}));  // skips more than any record takes
  CHECK_FALSE(reads_after(112, ~std::uint64_t{6}));           // rounds up to nothing

  for (const std::uint64_t head : {~std::uint64_t{0}, protocol::kRingLeast + 8, std::uint64_t{4}}) {
    TwoSides sides;
    protocol::RingWriter writer(sides.files.rings.to_job());
    while (writer.write(record)) {
    }
    writer.publish();
    head_of(sides.job.job_file)->reader.head.store(head);
    CHECK_FALSE(writer.write(record));
    CHECK(writer.broken());
    head_of(sides.job.job_file)->reader.head.store(112);
    CHECK_FALSE(writer.write(record));
  }
}

TEST_CASE("ring: a job that scribbles over its pages harms only itself") {
  std::uint64_t broken = 0;
  std::uint64_t records = 0;
  const auto begin = std::chrono::steady_clock::now();
  // On a busy machine it takes longer until both have had their turns.
  const auto goes_on = [&] {
    const auto past = std::chrono::steady_clock::now() - begin;
    return past < 2s || ((records == 0 || broken == 0) && past < 60s);
  };
  for (std::uint64_t round = 0; goes_on(); ++round) {
    TwoSides sides;
    std::atomic<bool> done = false;
    std::thread job([&] {
      const std::span<std::byte> memory = sides.job.job_file.memory();
      protocol::RingFileHead* head = head_of(sides.job.job_file);
      Random random(round);
      // Some of what is right and much of what is nearly so: else all would break at the first
      // word.
      while (!done.load(std::memory_order_relaxed)) {
        const std::uint64_t some = random.draw();
        const std::uint64_t at =
            protocol::kRingRecordsAt + random.below(protocol::kRingLeast / 8) * 8;
        const std::uint64_t word = random.below(64) == 0  ? some
                                   : random.below(8) == 0 ? ~std::uint64_t{0}
                                                          : random.below(200);
        std::memcpy(memory.data() + at, &word, sizeof word);
        head->reader.asleep.store(static_cast<std::uint32_t>(some & 1));
        if (random.below(20) == 0) head->writer.tail.fetch_add(random.below(4) * 8);
        if (random.below(20) == 0) head->reader.head.fetch_add(random.below(4) * 8);
        if (random.below(20000) == 0) head->writer.tail.store(some);
        if (random.below(20000) == 0) head->reader.head.store(some);
      }
    });
    protocol::RingWriter writer(sides.files.rings.to_job());
    protocol::RingReader reader(sides.files.rings.from_job());
    const auto round_until = std::chrono::steady_clock::now() + 20ms;
    bool was_broken = false;
    while (std::chrono::steady_clock::now() < round_until) {
      writer.write(record_of(records, 200));
      if (writer.publish()) writer.wake();
      if (reader.next()) ++records;
      reader.free_read();
      reader.fall_asleep();
      reader.awake();
      CHECK((!was_broken || reader.broken()));
      was_broken = reader.broken();
      if (writer.broken() && reader.broken()) break;
    }
    broken += static_cast<std::uint64_t>(was_broken) + static_cast<std::uint64_t>(writer.broken());
    done = true;
    job.join();
  }
  CHECK(broken > 0);
  CHECK(records > 0);
}

TEST_CASE("ring files: the job can only read the service's file, and neither can be resized") {
  TwoSides sides;
  std::string problem;
  CHECK_FALSE(protocol::Mapping::map_file(sides.files.service_file, 4096, true, problem));
  CHECK(problem.find("cannot be mapped") != std::string::npos);
  const char byte = 1;
  CHECK(pwrite(sides.files.service_file.get(), &byte, 1, 0) == -1);
  CHECK(pwrite(sides.files.job_file.get(), &byte, 1, 0) == 1);
  for (const protocol::Descriptor* file : {&sides.files.service_file, &sides.files.job_file}) {
    CHECK(ftruncate(file->get(), 0) == -1);
    CHECK(ftruncate(file->get(), 1 << 30) == -1);
  }
}

TEST_CASE("ring files: what is not a sealed file of that size is not mapped") {
  std::string problem;
  TwoSides sides;
  CHECK_FALSE(protocol::map_rings(sides.files.service_file, sides.files.job_file,
                                  protocol::kRingLeast * 2, problem));
  CHECK(problem.find("are needed") != std::string::npos);
  for (const Bytes bytes :
       {Bytes{0}, protocol::kRingLeast - 8, protocol::kRingLeast + 8, protocol::kRingMost * 2})
    CHECK_FALSE(
        protocol::map_rings(sides.files.service_file, sides.files.job_file, bytes, problem));
  CHECK_FALSE(protocol::map_rings(sides.files.service_file, sides.files.doorbell,
                                  protocol::kRingLeast, problem));
  const protocol::Descriptor open =
      protocol::make_memory_file("open", protocol::kRingRecordsAt + protocol::kRingLeast, problem);
  CHECK_FALSE(protocol::map_rings(sides.files.service_file, open, protocol::kRingLeast, problem));
  CHECK(problem == "a descriptor is not of a sealed memory file");
}

TEST_CASE(
    "ring files: a doorbell is silenced without waiting, even if the job makes it a waiting one") {
  TwoSides sides;
  fcntl(sides.files.doorbell.get(), F_SETFL, 0);
  protocol::ring_doorbell(sides.files.doorbell);
  pollfd poll_doorbell{sides.files.doorbell.get(), POLLIN, 0};
  CHECK(poll(&poll_doorbell, 1, 0) == 1);
  protocol::silence_doorbell(sides.files.doorbell);
  protocol::silence_doorbell(sides.files.doorbell);
  CHECK(poll(&poll_doorbell, 1, 0) == 0);
}

}  // namespace batchflow::test::ring_test
