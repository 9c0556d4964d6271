// The style of reports, and the little script in them. Both are within the file.
#pragma once

namespace batchflow::sim {

extern const char* const kReportStyle;
// Shows the values of the chart under the pointer. It holds no `]]>`.
extern const char* const kReportScript;

}  // namespace batchflow::sim
