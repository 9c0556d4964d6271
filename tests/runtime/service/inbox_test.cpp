// What the engine has not been told yet.
#include "runtime/service/inbox.h"
#include "doctest/doctest.h"

namespace batchflow::test::inbox_test {
namespace {

TEST_CASE("the dataset and pipeline of a job that has left are in use until the engine is told") {
  service::Inbox inbox, stepping;
  inbox.add_left(JobId(3), DatasetId(5), PipelineId(7));
  CHECK(std::get<engine::JobLeft>(inbox.events().front()).job == JobId(3));
  CHECK(inbox.is_left(DatasetId(5)));
  CHECK(inbox.is_left(PipelineId(7)));
  CHECK_FALSE(inbox.is_left(DatasetId(7)));
  CHECK_FALSE(inbox.is_left(PipelineId(5)));
  stepping.swap(inbox);
  CHECK_FALSE(inbox.is_left(DatasetId(5)));
  stepping.clear();
  CHECK_FALSE(stepping.is_left(PipelineId(7)));
  CHECK(stepping.empty());
}

}  // namespace
}  // namespace batchflow::test::inbox_test
