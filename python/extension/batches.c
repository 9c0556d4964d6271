/* What the Python package does for each batch, where ctypes would be most of its cost: the call of
 * the library, the object that keeps the batch's memory, the batch's numbers and marks, and tensors
 * of PyTorch over its memory, by DLPack. python/batchflow/crossing.py calls it, and does the same
 * by ctypes where it is missing.
 *
 * It is not linked to the client library. ctypes gives it the addresses of functions, so that one
 * library is in the process. It uses Python's stable ABI: one file serves each CPython from 3.9 on
 * that has a global lock.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "batchflow.h"

typedef bf_status (*next_within_function)(bf_loader*, bf_batch*, double);
typedef void (*release_function)(bf_loader*, uint64_t);

/* ------------------------------------------------------------------------ a batch's memory ---- */

/* It goes back to the service with its last user. Tensors of PyTorch may end on any thread, with or
 * without Python's lock, so no part of Python is used for it. */
typedef struct memory {
  atomic_size_t users;
  release_function release;
  uint64_t handle;
} memory;

static atomic_size_t held_batches;

static void drop(memory* used) {
  if (atomic_fetch_sub(&used->users, 1) != 1) return;
  used->release(NULL, used->handle);
  free(used);
  atomic_fetch_sub(&held_batches, 1);
}

typedef struct held {
  PyObject head;
  memory* used;
} held;

static PyTypeObject* held_type;

static void held_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  memory* const used = ((held*)self)->used;
  if (used != NULL) drop(used); /* Held() of Python has none */
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyType_Slot held_slots[] = {
    {Py_tp_dealloc, (void*)held_dealloc},
    {Py_tp_doc, (void*)"A batch's memory, which goes back to the service with its last user."},
    {0, NULL}};

static PyType_Spec held_spec = {"batchflow.Held", sizeof(held), 0, Py_TPFLAGS_DEFAULT, held_slots};

/* ------------------------------------------------------------------------------- arguments ---- */

static int takes(PyObject* arguments, Py_ssize_t count) {
  if (PyTuple_Size(arguments) == count) return 1;
  PyErr_Format(PyExc_TypeError, "this takes %zd arguments", count);
  return 0;
}

/* Check PyErr_Occurred() after the last of them. */
static void* address_at(PyObject* arguments, Py_ssize_t i) {
  return PyLong_AsVoidPtr(PyTuple_GetItem(arguments, i));
}

static uint64_t number_at(PyObject* arguments, Py_ssize_t i) {
  return PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, i));
}

/* ----------------------------------------------------------------------------- the batches ---- */

static PyObject* look(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!takes(arguments, 4)) return NULL;
  void* const next_within = address_at(arguments, 0);
  bf_loader* const loader = address_at(arguments, 1);
  bf_batch* const batch = address_at(arguments, 2);
  const double seconds = PyFloat_AsDouble(PyTuple_GetItem(arguments, 3));
  if (PyErr_Occurred()) return NULL;
  PyThreadState* const thread = PyEval_SaveThread();
  const bf_status status = ((next_within_function)next_within)(loader, batch, seconds);
  PyEval_RestoreThread(thread);
  return PyLong_FromLong(status);
}

static PyObject* hold(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!takes(arguments, 2)) return NULL;
  void* const release = address_at(arguments, 0);
  const uint64_t handle = number_at(arguments, 1);
  if (PyErr_Occurred()) return NULL;
  memory* const used = malloc(sizeof(memory));
  held* const made = used != NULL ? PyObject_New(held, held_type) : NULL;
  if (made == NULL) {
    free(used);
    return PyErr_NoMemory();
  }
  atomic_init(&used->users, 1);
  used->release = (release_function)release;
  used->handle = handle;
  made->used = used;
  atomic_fetch_add(&held_batches, 1);
  return (PyObject*)made;
}

static PyObject* held_count(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  return PyLong_FromSize_t(atomic_load(&held_batches));
}

/* Names of the facts of a batch: attributes of batch.Batch. */
enum { SAMPLES, FILLERS, REHEARSED, REPEATS, EPOCH, STEP, LAST_OF_EPOCH, COPIED, FACTS };
static const char* const fact_names[FACTS] = {"samples", "fillers", "rehearsed",     "repeats",
                                              "epoch",   "step",    "last_of_epoch", "copied"};
static PyObject* facts[FACTS];

static int add(PyObject* dictionary, int name, PyObject* value) {
  const int failed = value == NULL || PyDict_SetItem(dictionary, facts[name], value) != 0;
  Py_XDECREF(value);
  return !failed;
}

static PyObject* add_facts(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!takes(arguments, 2)) return NULL;
  PyObject* const to = PyTuple_GetItem(arguments, 0);
  const bf_batch* const batch = address_at(arguments, 1);
  if (PyErr_Occurred()) return NULL;
  if (!add(to, SAMPLES, PyLong_FromUnsignedLong(batch->samples)) ||
      !add(to, FILLERS, PyLong_FromUnsignedLong(batch->fillers)) ||
      !add(to, REHEARSED, PyLong_FromUnsignedLong(batch->rehearsed)) ||
      !add(to, REPEATS, PyLong_FromUnsignedLong(batch->repeats)) ||
      !add(to, EPOCH, PyLong_FromUnsignedLong(batch->epoch)) ||
      !add(to, STEP, PyLong_FromUnsignedLongLong(batch->step)) ||
      !add(to, LAST_OF_EPOCH, PyBool_FromLong(batch->last_of_epoch)) ||
      !add(to, COPIED, PyBool_FromLong(batch->copied)))
    return NULL;
  Py_RETURN_NONE;
}

/* ---------------------------------------------------------------------------------- DLPack ---- */

/* As in DLPack 0.8. */
typedef struct tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} tensor;

typedef struct managed {
  tensor shown;
  void* context;
  void (*deleter)(struct managed*);
  memory* used;
  int64_t shape[];
} managed;

static void delete_managed(managed* made) {
  drop(made->used);
  free(made);
}

/* A consumer gives a capsule another name, and calls the deleter. */
static void capsule_dealloc(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
}

static memory* memory_of(PyObject* keeper) {
  memory* const used = Py_TYPE(keeper) == held_type ? ((held*)keeper)->used : NULL;
  if (used == NULL) PyErr_SetString(PyExc_TypeError, "this is not what hold() gave");
  return used;
}

/* `form`: code, bits and shape. `samples`: a dimension before those of the shape; -1: there is
 * none. The capsule keeps the memory, and so does its tensor. */
static PyObject* new_capsule(memory* used, const void* address, PyObject* form, int64_t samples) {
  if (!takes(form, 3)) return NULL;
  const uint64_t code = number_at(form, 0);
  const uint64_t bits = number_at(form, 1);
  PyObject* const shape = PyTuple_GetItem(form, 2);
  const Py_ssize_t given = PyErr_Occurred() ? -1 : PyTuple_Size(shape);
  if (given < 0) return NULL;
  const Py_ssize_t first = samples >= 0 ? 1 : 0;
  managed* const made = malloc(sizeof(managed) + (size_t)(first + given) * sizeof(int64_t));
  if (made == NULL) return PyErr_NoMemory();
  if (first != 0) made->shape[0] = samples;
  for (Py_ssize_t i = 0; i < given; ++i)
    made->shape[first + i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
  made->shown = (tensor){.data = (void*)address,
                         .device_type = 1, /* the CPU */
                         .ndim = (int32_t)(first + given),
                         .code = (uint8_t)code,
                         .bits = (uint8_t)bits,
                         .lanes = 1,
                         .shape = made->shape};
  made->context = NULL;
  made->deleter = delete_managed;
  made->used = used;
  PyObject* const result =
      PyErr_Occurred() ? NULL : PyCapsule_New(made, "dltensor", capsule_dealloc);
  if (result == NULL) {
    free(made);
    return NULL;
  }
  atomic_fetch_add(&used->users, 1);
  return result;
}

static PyObject* capsule(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!takes(arguments, 3)) return NULL;
  memory* const used = memory_of(PyTuple_GetItem(arguments, 0));
  const void* const address = used != NULL ? address_at(arguments, 1) : NULL;
  if (PyErr_Occurred()) return NULL;
  return new_capsule(used, address, PyTuple_GetItem(arguments, 2), -1);
}

static PyObject* arrays(PyObject* module, PyObject* arguments) {
  (void)module;
  if (!takes(arguments, 4)) return NULL;
  PyObject* const from_dlpack = PyTuple_GetItem(arguments, 0);
  PyObject* const forms = PyTuple_GetItem(arguments, 1);
  memory* const used = memory_of(PyTuple_GetItem(arguments, 2));
  const bf_batch* const batch = used != NULL ? address_at(arguments, 3) : NULL;
  const Py_ssize_t count = PyErr_Occurred() ? -1 : PyTuple_Size(forms);
  PyObject* const made = count >= 0 ? PyList_New(count) : NULL;
  if (made == NULL) return NULL;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const one =
        new_capsule(used, batch->arrays[i].values, PyTuple_GetItem(forms, i), batch->samples);
    PyObject* const array =
        one != NULL ? PyObject_CallFunctionObjArgs(from_dlpack, one, NULL) : NULL;
    Py_XDECREF(one);
    if (array == NULL || PyList_SetItem(made, i, array) != 0) {
      Py_DECREF(made);
      return NULL;
    }
  }
  return made;
}

/* ------------------------------------------------------------------------------ the module ---- */

static PyMethodDef functions[] = {
    {"look", look, METH_VARARGS,
     "look(bf_loader_next_within, loader, batch, seconds): its status. Other threads run "
     "meanwhile."},
    {"hold", hold, METH_VARARGS, "hold(bf_batch_release, handle): what keeps a batch's memory."},
    {"held_count", held_count, METH_NOARGS, "held_count(): how many batches are held."},
    {"add_facts", add_facts, METH_VARARGS, "add_facts(dictionary, batch): adds numbers and marks."},
    {"capsule", capsule, METH_VARARGS,
     "capsule(held, address, (code, bits, shape)): a capsule of DLPack, which keeps the memory."},
    {"arrays", arrays, METH_VARARGS,
     "arrays(from_dlpack, forms, held, batch): what from_dlpack makes of each field. A form is a "
     "field's code, bits and shape of a sample."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "batchflow_batches", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_batchflow_batches(void);
PyMODINIT_FUNC PyInit_batchflow_batches(void) {
  for (int i = 0; i < FACTS; ++i)
    if ((facts[i] = PyUnicode_InternFromString(fact_names[i])) == NULL) return NULL;
  PyObject* const type = PyType_FromSpec(&held_spec);
  PyObject* const module = type != NULL ? PyModule_Create(&definition) : NULL;
  if (module == NULL) return NULL;
  held_type = (PyTypeObject*)type;
  Py_INCREF(type);  // that which the next line takes
  if (PyModule_AddObject(module, "Held", type) != 0 ||
      PyModule_AddIntConstant(module, "INTERFACE", 1) != 0) /* as in crossing.py */
    return NULL;
  return module;
}
