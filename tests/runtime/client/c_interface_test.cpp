// Programs and the client library with different versions of the header: a struct of a program may
// be smaller or larger than the library's.
#include "runtime/client/c_interface.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "tests/runtime/client/loading.h"

// A struct that has grown: the first version of its header ended with `first`.
struct Grown {
  std::size_t struct_size;
  std::uint64_t first;
  std::uint64_t later;
};

namespace batchflow::client {

template <>
inline constexpr std::size_t kFirstSize<Grown> = offsetof(Grown, first) + sizeof(Grown::first);

}  // namespace batchflow::client

namespace batchflow::test::c_interface_test {
namespace {

constexpr std::uint8_t kUntouched = 0xa5;

// Exactly as large as a program says that its struct is, so that a sanitizer sees a step beyond.
template <class Struct>
struct Given {
  explicit Given(std::size_t size) : bytes(new std::uint8_t[size]) {
    std::memset(bytes.get(), kUntouched, size);
    std::memcpy(bytes.get(), &size, sizeof size);
  }
  Struct* get() { return reinterpret_cast<Struct*>(bytes.get()); }
  template <class Field>
  Field at(std::size_t offset) const {
    Field field;
    std::memcpy(&field, bytes.get() + offset, sizeof field);
    return field;
  }
  std::unique_ptr<std::uint8_t[]> bytes;
};

TEST_CASE("client: a struct of an older header has defaults for later fields") {
  Given<Grown> given(client::kFirstSize<Grown>);
  const std::uint64_t value = 7;
  std::memcpy(given.bytes.get() + offsetof(Grown, first), &value, sizeof value);
  REQUIRE(client::has_first_fields(given.get()));
  const Grown whole = client::whole_of(given.get());
  CHECK(whole.struct_size == sizeof(Grown));
  CHECK(whole.first == 7);
  CHECK(whole.later == 0);
}

TEST_CASE("client: the library fills those fields that a program's struct has") {
  const Grown filled{sizeof(Grown), 1, 2};
  Given<Grown> older(client::kFirstSize<Grown>);
  client::give_fields(filled, older.get());
  CHECK(older.at<std::size_t>(0) == client::kFirstSize<Grown>);
  CHECK(older.at<std::uint64_t>(offsetof(Grown, first)) == 1);

  Given<Grown> newer(sizeof(Grown) + 8);
  client::give_fields(filled, newer.get());
  CHECK(newer.at<std::size_t>(0) == sizeof(Grown) + 8);
  CHECK(newer.at<std::uint64_t>(offsetof(Grown, later)) == 2);
  CHECK(newer.bytes[sizeof(Grown)] == kUntouched);
}

TEST_CASE("client: no version has a smaller struct than the first") {
  CHECK_FALSE(client::has_first_fields<Grown>(nullptr));
  CHECK_FALSE(client::has_first_fields(Given<Grown>(client::kFirstSize<Grown> - 1).get()));
  // Golden sizes, for pointers of 8 bytes: fields are only ever added behind these.
  CHECK(client::kFirstSize<bf_loader_options> == 176);
  CHECK(client::kFirstSize<bf_loader_info> == 72);
  CHECK(client::kFirstSize<bf_loader_times> == 56);
  CHECK(client::kFirstSize<bf_batch> == 88);
  CHECK(client::kFirstSize<bf_samples_sum> == 32);
}

TEST_CASE("client: a program may be built with an older or a newer header") {
  Address address;
  Services services(address, {Script()});
  Given<bf_loader_options> options(sizeof(bf_loader_options) + 24);
  bf_loader_options known = options_for(address);
  known.struct_size = sizeof(bf_loader_options) + 24;
  std::memcpy(options.bytes.get(), &known, sizeof known);
  bf_loader* loader = nullptr;
  REQUIRE_MESSAGE(bf_loader_open(options.get(), &loader) == BF_OK, bf_last_error());

  Given<bf_batch> small(client::kFirstSize<bf_batch> - 1);
  CHECK(bf_loader_next(loader, small.get()) == BF_BAD_ARGUMENT);
  CHECK(std::string(bf_last_error()).find("begin it with its _INIT") != std::string::npos);
  for (const std::size_t size : {client::kFirstSize<bf_batch>, sizeof(bf_batch) + 16}) {
    CAPTURE(size);
    Given<bf_batch> given(size);
    REQUIRE_MESSAGE(bf_loader_next(loader, given.get()) == BF_OK, bf_last_error());
    CHECK(given.at<std::size_t>(0) == size);
    for (std::size_t i = sizeof(bf_batch); i < size; ++i) CHECK(given.bytes[i] == kUntouched);
    bf_batch batch = BF_BATCH_INIT;
    std::memcpy(&batch, given.bytes.get(), client::kFirstSize<bf_batch>);
    check_content(batch);
    bf_batch_release(loader, batch.handle);
  }
  Given<bf_loader_info> info(client::kFirstSize<bf_loader_info>);
  REQUIRE(bf_loader_info_get(loader, info.get()) == BF_OK);
  CHECK(info.at<std::uint64_t>(offsetof(bf_loader_info, dataset_samples)) == 40);
  Given<bf_loader_times> times(sizeof(bf_loader_times) + 8);
  REQUIRE(bf_loader_times_get(loader, times.get()) == BF_OK);
  CHECK(times.at<std::uint64_t>(offsetof(bf_loader_times, batches)) == 2);
  CHECK(times.bytes[sizeof(bf_loader_times)] == kUntouched);
  bf_loader_close(loader);
  CHECK(services.end().front().problem == "");
}

}  // namespace
}  // namespace batchflow::test::c_interface_test
