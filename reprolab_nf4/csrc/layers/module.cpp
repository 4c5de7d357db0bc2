// The extension module reprolab_nf4._layers, which reprolab_nf4/layers.py uses.
#include "reprolab_nf4/csrc/layers/calls.hpp"
#include "reprolab_nf4/csrc/layers/object.hpp"

namespace reprolab::layers {
namespace {

struct CallsObject {
  PyObject_HEAD Calls* calls;
};

PyObject* none_if(bool done) { return done ? Py_NewRef(Py_None) : nullptr; }

const exchange::Api* exchange_of(PyObject* capsule) {
  const void* const pointer = PyCapsule_GetPointer(capsule, exchange::capsule_name);
  const auto* api = static_cast<const exchange::Api*>(pointer);
  while (api != nullptr && api->version.major != exchange::major_version) api = api->older;
  if (api == nullptr || api->read == nullptr || api->current_stream == nullptr) {
    PyErr_SetString(PyExc_ImportError, "PyTorch has another version of DLPack's C exchange");
    return nullptr;
  }
  return api;
}

PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count == 2) return calls_of(self).call(arguments[0], arguments[1]);
  PyErr_SetString(PyExc_TypeError, "give a layer and its input");
  return nullptr;
}

PyObject* bind(PyObject* self, PyObject* module) {
  const std::int64_t generation = calls_of(self).bind(module);
  PyErr_Clear();
  return PyLong_FromLongLong(generation);
}

PyObject* add(PyObject* self, PyObject* arguments) {
  PyObject *module, *x, *plan;
  long long generation;
  if (!PyArg_ParseTuple(arguments, "OOOL", &module, &x, &plan, &generation)) return nullptr;
  if (plan != Py_None && plan != Py_False && Py_TYPE(plan) != plan_type()) {
    PyErr_SetString(PyExc_TypeError, "give a Plan, None or False");
    return nullptr;
  }
  return none_if(calls_of(self).add(module, x, plan, generation));
}

PyObject* forget(PyObject* self, PyObject* weak) {
  calls_of(self).forget(weak);
  return Py_NewRef(Py_None);
}

PyObject* close(PyObject* self, PyObject*) {
  calls_of(self).close();
  return Py_NewRef(Py_None);
}

PyObject* new_calls(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *forward, *left, *make, *capsule, *tensor, *weight, *parameter, *state, *guards,
      *settings, *grad, *capturing;
  PyObject *on_cpu, *on_gpu, *byte_type, *version, *is_negative, *plainly;
  long long max_rows;
  if (!PyArg_ParseTuple(arguments, "OOOOOOOOO!O!OOOOOOOOL", &forward, &left, &make, &capsule,
                        &tensor, &weight, &parameter, &state, &PyList_Type, &guards, &PyList_Type,
                        &settings, &grad, &capturing, &on_cpu, &on_gpu, &byte_type, &version,
                        &is_negative, &plainly, &max_rows)) {
    return nullptr;
  }
  Given given{.forward = Ref::to(forward),
              .left = Ref::to(left),
              .make = Ref::to(make),
              .reader = {exchange_of(capsule), Ref::to(tensor), Ref::to(version),
                         Ref::to(is_negative), Ref::to(plainly)},
              .classes = {Ref::to(weight), Ref::to(parameter), Ref::to(state)},
              .guards = {},
              .settings = {},
              .grad_is_enabled = Ref::to(grad),
              .is_capturing = Ref::to(capturing),
              .allocate_on_cpu = Ref::to(on_cpu),
              .allocate_on_gpu = Ref::to(on_gpu),
              .byte_type = Ref::to(byte_type),
              .max_rows = max_rows};
  if (given.reader.api == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_Size(guards); ++i) {
    PyObject *function, *idle;
    if (!PyArg_ParseTuple(PyList_GetItem(guards, i), "OO", &function, &idle)) return nullptr;
    given.guards.push_back({Ref::to(function), Ref::to(idle)});
  }
  for (Py_ssize_t i = 0; i < PyList_Size(settings); ++i) {
    PyObject *dictionary, *name, *value;
    if (!PyArg_ParseTuple(PyList_GetItem(settings, i), "O!UO", &PyDict_Type, &dictionary, &name,
                          &value)) {
      return nullptr;
    }
    given.settings.push_back({Ref::to(dictionary), Ref::to(name), Ref::to(value)});
  }
  PyObject* const object = PyType_GenericAlloc(type, 0);
  if (object == nullptr) return nullptr;
  auto* const calls = new Calls(std::move(given));
  reinterpret_cast<CallsObject*>(object)->calls = calls;
  calls->weak_callback = Ref::of_new(PyObject_GetAttrString(object, "forget"));
  return object;
}

void free_calls(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  delete reinterpret_cast<CallsObject*>(object)->calls;
  PyObject_Free(object);
  Py_DECREF(type);
}

template <class Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

}  // namespace

Calls& calls_of(PyObject* object) { return *reinterpret_cast<CallsObject*>(object)->calls; }

PyTypeObject* calls_type() {
  static PyMethodDef methods[] = {{"call", as_method(call), METH_FASTCALL, nullptr},
                                  {"bind", bind, METH_O, nullptr},
                                  {"add", add, METH_VARARGS, nullptr},
                                  {"forget", forget, METH_O, nullptr},
                                  {"close", close, METH_NOARGS, nullptr},
                                  {}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_calls)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(free_calls)},
                                {Py_tp_methods, methods},
                                {0, nullptr}};
  static PyType_Spec spec = {"reprolab_nf4._layers.Calls", sizeof(CallsObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace reprolab::layers

PyMODINIT_FUNC PyInit__layers() {
  using namespace reprolab::layers;
  static PyMethodDef functions[] = {{"plan", new_plan, METH_VARARGS, nullptr}, {}};
  static PyModuleDef definition = {
      PyModuleDef_HEAD_INIT, "_layers", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};
  PyObject* const module = PyModule_Create(&definition);
  const auto add = [&](const char* name, PyTypeObject* type) {
    return type != nullptr &&
           PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(type)) == 0;
  };
  const bool is_done = module != nullptr && plan_type() != nullptr && add("Calls", calls_type()) &&
                       add("LayerCall", layer_call_type());
  return is_done ? module : nullptr;
}
