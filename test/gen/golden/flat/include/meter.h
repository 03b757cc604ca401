// SPDX-License-Identifier: Apache-2.0
// A toy API of many small functions: one of each shape that the flat language knows.
#pragma once

typedef enum meterReturn_enum { METER_SUCCESS = 0, METER_ERROR_UNKNOWN = 999 } meterReturn_t;
typedef enum meterUnit_enum { METER_UNIT_VOLT = 0, METER_UNIT_AMPERE = 1 } meterUnit_t;
typedef struct meterDevice_st* meterDevice_t;
typedef struct meterTrace_st* meterTrace_t;

typedef struct meterReading_st {
  unsigned int unit;
  unsigned long long ticks;
  double value;
  char label[16];
  unsigned int process;
  union {
    unsigned int word;
    float fraction;
  } raw;
} meterReading_t;

typedef struct {
  unsigned int version;
  unsigned int limit;
} meterRange_v1_t;
typedef struct {
  unsigned int version;
  unsigned int limit;
  unsigned int roomForPoints;
  unsigned long long* points;
} meterRange_v2_t;
typedef meterRange_v2_t meterRange_t;

typedef struct {
  unsigned int used;
  meterReading_t readings[4];
  struct {
    const char* name;
  } info;
  meterDevice_t device;
} meterBatch_t;

meterReturn_t meterInit(void);
meterReturn_t meterGetDevice(unsigned int index, meterDevice_t* device);
meterReturn_t meterFind(const char* name, meterDevice_t* device);
meterReturn_t meterGetName(meterDevice_t device, char* name, unsigned int length);
meterReturn_t meterRead(meterDevice_t device, meterUnit_t unit, meterReading_t* reading);
meterReturn_t meterReadOld(meterDevice_t device, meterReading_t* reading);
meterReturn_t meterGetRange(meterDevice_t device, meterRange_t* range);
meterReturn_t meterList(meterDevice_t device, unsigned int* count, meterReading_t* readings);
meterReturn_t meterStates(meterDevice_t device, meterUnit_t* states, unsigned int size);
meterReturn_t meterExchange(meterDevice_t device, int count, meterReading_t* readings);
meterReturn_t meterGetBatch(meterBatch_t* batch);
meterReturn_t meterSetLimit(meterDevice_t device, unsigned int limit);
meterReturn_t meterTraceCreate(meterTrace_t* trace);
meterReturn_t meterTraceFree(meterTrace_t trace);
meterReturn_t meterTraceWait(meterTrace_t trace, unsigned int timeout);
meterReturn_t meterCalibrate(void* anything);
