// Small job logs in every format that is read, written by hand after the publishers' descriptions,
// with the faults of real logs; and the result that is expected of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace batchflow::test {

struct JobFixture {
  std::string_view format;
  std::string text;
  std::string csv;       // all jobs as BatchFlow's own CSV, without its header
  std::string times;     // their base
  std::string problems;  // `kind=rows@first line`, separated by blanks
};

inline std::vector<JobFixture> job_fixtures() {
  std::vector<JobFixture> fixtures;

  fixtures.push_back({"batchflow",
                      "# BatchFlow jobs 1, times: relative\n"
                      "id,name,user,queue,submit_s,start_s,duration_s,gpus,nodes,cpus,memory_bytes,"
                      "status,attempts\n"
                      "a,\"train, \"\"big\"\"\",ann,q1,0,1.5,10.25,8,1,12.5,1024,completed,2\n"
                      "b,,,,-3,,,0.5,,,,pending,1\n"
                      "c,,bob,q1,7,7,0,0,,,,node_failure,1\n",
                      "b,,,,-3,,,0.5,,,,pending,1\n"
                      "a,\"train, \"\"big\"\"\",ann,q1,0,1.5,10.25,8,1,12.5,1024,completed,2\n"
                      "c,,bob,q1,7,7,0,0,,,,node_failure,1\n",
                      "relative", "not_sorted=1@4 never_started=1@4"});

  // A job of two attempts; one that never ran; one that still runs; one with a first attempt
  // without a start; one that ends before it starts.
  fixtures.push_back({"philly-json",
                      R"([
  {"status": "Pass", "vc": "v1", "jobid": "app_1", "attempts": [
     {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23",
      "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]},
     {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-07 02:12:09",
      "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]}],
   "submitted_time": "2017-10-07 01:11:39", "user": "u1"},
  {"status": "Killed", "vc": "v1", "jobid": "app_2", "attempts": [],
   "submitted_time": "2017-10-07 01:11:40", "user": "u1"},
  {"status": "Failed", "vc": "v2", "jobid": "app_3", "attempts": [
     {"start_time": "2017-10-07 01:00:01", "end_time": null,
      "detail": [{"ip": "m3", "gpus": ["gpu7"]}]}],
   "submitted_time": "2017-10-07 01:00:00", "user": "u2"},
  {"status": "Failed", "vc": "v2", "jobid": "app_4", "attempts": [
     {"start_time": "None", "end_time": "None", "detail": []},
     {"start_time": "2017-10-08 00:00:10", "end_time": "2017-10-08 00:00:20",
      "detail": [{"ip": "m{3}", "gpus": ["gpu\"}7"]}]}],
   "submitted_time": "2017-10-08 00:00:00", "user": "u2"},
  {"status": "Pass", "vc": "v2", "jobid": "app_5", "attempts": [
     {"start_time": "2017-10-08 00:00:30", "end_time": "2017-10-08 00:00:20",
      "detail": [{"ip": "m3", "gpus": ["gpu7"]}]}],
   "submitted_time": "2017-10-08 00:00:00", "user": "u2"}
]
)",
                      "app_3,,u2,v2,1507338000,1507338001,,1,1,,,failed,1\n"
                      "app_1,,u1,v1,1507338699,1507338729,3600,4,2,,,completed,2\n"
                      "app_4,,u2,v2,1507420800,1507420810,10,1,1,,,failed,2\n",
                      "local",
                      "no_gpu_count=1@8 end_before_start=1@19 not_sorted=1@10 no_end=1@10"});

  fixtures.push_back({"philly-csv",
                      "timestamp,duration,num_gpus,gpu_time,cluster\n"
                      "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
                      "2017-10-09 06:13:03,2951.5,8,23612.0,6214e9\n"
                      "\n",
                      ",,,6214e9,1507529583,,2951.5,8,,,,unknown,1\n"
                      ",,,11cb48,1507532515,,66,1,,,,unknown,1\n",
                      "local", "not_sorted=1@3"});

  fixtures.push_back(
      {"intervals",
       "u_id,user,gpu_num,cpu_num,node_num,interval,run_time,wall_time,new_status\r\n"
       "0,1,1,0,1,0,84,0,Pass\r\n"
       "1,2,24,24,3,94,87,0,Failed\r\n"
       "2,1,0,8,1,6,83,0,Killed\r\n",
       "0,,1,,0,,84,1,1,,,completed,1\n"
       "1,,2,,94,,87,24,3,24,,failed,1\n"
       "2,,1,,100,,83,0,1,8,,cancelled,1\n",
       "relative", ""});

  fixtures.push_back(
      {"helios",
       "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,"
       "queue\n"
       "11,uA,vcX,4,16,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:31,2020-06-09 "
       "19:41:31,3600,30\n"
       "12,uA,vcX,1,1,1,NODE_FAIL,2020-06-09 18:42:00,2020-06-09 18:41:59,2020-06-09 "
       "18:42:59,60,-1\n"
       "13,uB,vcY,0,1,1,TIMEOUT,2020-06-10 00:00:00,2020-06-10 00:00:00,2020-06-10 00:00:00,0,0\n"
       "14,uB,vcY,8,1,1,ODD,2020-06-10 00:00:01,,,,\n"
       "15,uB,vcY,2,1,1,CANCELLED,2020-06-10 00:00:02,None,2020-06-10 00:10:12,0,610\n",
       "11,,uA,vcX,1591728061,1591728091,3600,4,1,16,,completed,1\n"
       "12,,uA,vcX,1591728119,1591728119,60,1,1,1,,node_failure,1\n"
       "13,,uB,vcY,1591747200,1591747200,0,0,1,1,,timeout,1\n"
       "14,,uB,vcY,1591747201,,,8,1,1,,unknown,1\n"
       "15,,uB,vcY,1591747202,,,2,1,1,,cancelled,1\n",
       "local", "submit_after_start=1@3 unknown_status=1@5 never_started=2@5"});

  fixtures.push_back(
      {"acme",
       "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_"
       "time,"
       "start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
       "dlc1,u1,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 "
       "11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n"
       "dlc2,u1,1,0,128,0.5,,Debug,CANCELLED,2023-03-01 08:18:22+08:00,2023-03-01 "
       "08:18:54+08:00,2023-03-01 08:20:51+08:00,,,117,32,0\n",
       "dlc2,Debug,u1,,1677629902,1677629934,117,0,1,128,500000000,cancelled,1\n"
       "dlc1,Other,u1,,1684321258,1684321268,8,64,8,960,8000000000000,failed,1\n",
       "utc", "not_sorted=1@3"});

  // The task table alone; a test of its own reads it with the job table beside it.
  fixtures.push_back(
      {"pai-v2020",
       "j1,ps,1.0,Terminated,100.0,200.0,600.0,29.5,0.0,MISC\n"
       "j1,worker,2.0,Terminated,110.0,260.0,400.0,10.0,50.0,V100\n"
       "j2,tensorflow,1.0,Failed,50.0,60.5,600.0,29.296875,25.0,T4\n"
       "j3,tensorflow,1.0,Waiting,,,600.0,29.296875,25.0,T4\n",
       "j2,,,,50,50,10.5,0.25,,6,29296875000,failed,1\n"
       "j1,,,,100,100,160,1,,14,49500000000,completed,1\n",
       "relative", "no_submit_time=1@4 submit_after_start=2@1 not_sorted=1@3 parts_of_jobs=1@2"});

  fixtures.push_back(
      {"openb",
       "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
       "deletion_time,scheduled_time\n"
       "p0,12000,16384,1,1000,,LS,Running,0,100,0\n"
       "p1,6500,1,1,460,V100M16|V100M32,BE,Succeeded,10,20,15\n"
       "p2,6000,0,8,1000,,LS,Failed,11,22,12\n"
       "p3,6000,0,0,0,,LS,Pending,12,40,\n",
       "p0,,,LS,0,0,100,1,,12,17179869184,running,1\n"
       "p1,,,BE,10,15,5,0.46,,6.5,1048576,completed,1\n"
       "p2,,,LS,11,12,10,8,,6,,failed,1\n"
       "p3,,,LS,12,,,0,,6,,pending,1\n",
       "relative", "never_started=1@5"});

  fixtures.push_back({"itp",
                      "job_id,submission_time,duration,num_gpu\n"
                      "965d744f-0445,5010,2429,64\n"
                      "fb10987f-20ac,5016,1532,1\n",
                      "965d744f-0445,,,,5010,,2429,64,,,,unknown,1\n"
                      "fb10987f-20ac,,,,5016,,1532,1,,,,unknown,1\n",
                      "relative", ""});

  fixtures.push_back(
      {"supercloud",
       "id_job,id_user,nodes_alloc,nodelist,cpus_req,mem_req,partition,state,timelimit,time_submit,"
       "time_eligible,time_start,time_end,tres_alloc,tres_req,job_type\n"
       "71.0,5.0,1,\"['r1-n1','r1-n2']\",10,0,normal,4,21600,1613952046,1613952046,1613952048,"
       "1613952864,\"1=10,2=85000,3=18446744073709551614,4=1,5=10,1002=1\",\"1=10,1002=2\",OTHER\n"
       "72.0,5.0,1,\"['r1-n1']\",10,0,normal,3,21600,1613952050,1613952050,1613952060,1613952070,"
       "\"1=40,2=340000,4=2\",\"1=10\",MAP\n"
       "73.0,6.0,0,,10,0,normal,0,21600,1613952051,0,0,0,,\"1=10,4=1,1001=1,1002=1\",MAP\n",
       "71.0,OTHER,5.0,normal,1613952046,1613952048,816,1,1,10,89128960000,cancelled,1\n"
       "72.0,MAP,5.0,normal,1613952050,1613952060,10,0,2,40,356515840000,completed,1\n"
       "73.0,MAP,6.0,normal,1613952051,,,2,1,10,,pending,1\n",
       "utc", "never_started=1@4"});

  fixtures.push_back(
      {"sacct",
       "JobID|JobIDRaw|JobName|User|Partition|Submit|Start|End|State|NNodes|NCPUS|AllocTRES|"
       "ReqTRES\n"
       "17|17|train|ann|gpu|2024-03-01T10:00:00|2024-03-01T10:00:05|2024-03-01T10:01:05|"
       "CANCELLED by "
       "1017|2|16|billing=16,cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=1.5T,node=2|cpu=1,gres/gpu=1\n"
       "17.batch|17.batch|batch||||2024-03-01T10:00:05|2024-03-01T10:01:05|COMPLETED|1|8|cpu=8|\n"
       "18_2|20|array|bob|gpu|2024-03-01T10:00:01|2024-03-01T10:00:06|Unknown|RUNNING|1|4|"
       "cpu=4,gres/gpu:h100=1,gres/gpu:a100=2,mem=32G,node=1|\n"
       "19|19|wait|bob|gpu|2024-03-01T10:00:02|Unknown|Unknown|PENDING|1|4||cpu=4,gres/gpu=2\n"
       "20|21|cpus|bob|gpu|2024-03-01T10:00:02|None|2024-03-01T10:00:03|CANCELLED|1|4||cpu=4\n"
       "21|22|wait|bob|gpu|2024-03-01T10:00:02|Unknown|Unknown|PENDING|1|4||\n",
       "17,train,ann,gpu,1709287200,1709287205,60,8,2,16,1649267441664,cancelled,1\n"
       "18_2,array,bob,gpu,1709287201,1709287206,,3,1,4,34359738368,running,1\n"
       "19,wait,bob,gpu,1709287202,,,2,1,4,,pending,1\n"
       "20,cpus,bob,gpu,1709287202,,,0,1,4,,cancelled,1\n",
       "local", "no_gpu_count=1@7 never_started=2@5 no_end=1@4 parts_of_jobs=1@3"});

  fixtures.push_back({"swf",
                      "; Version: 2.2\n"
                      "; UnixStartTime: 1000000\n"
                      "  1 0 5 60 4 -1 2048 4 100 -1 1 3 1 7 2 -1 -1 -1\n"
                      "  2 10 -1 -1 -1 -1 -1 8 100 -1 5 4 1 -1 1 -1 -1 -1\n"
                      "  3 11 0 2.5 1 -1 -1 1 100 -1 0 -1 1 -1 1 -1 -1 -1\n"
                      "  3 11 0 2.5 1 -1 -1 1 100 -1 2 -1 1 -1 1 -1 -1 -1\n",
                      "1,7,3,2,1000000,1000005,60,0,,4,8388608,completed,1\n"
                      "2,,4,1,1000010,,,0,,8,,cancelled,1\n"
                      "3,,,1,1000011,1000011,2.5,0,,1,,failed,1\n",
                      "utc", "never_started=1@4 parts_of_jobs=1@6"});
  return fixtures;
}

}  // namespace batchflow::test
