/* Runs a signature of a SavedModel without Python: the loader is the one of TensorFlow Serving.

   ./predict [-l OPERATIONS.so] FOLDER SIGNATURE INPUT=VALUE...

   An input that takes a batch is given several times, a scalar once. Each output is printed with its shape and its
   values, floats with the nine digits that tell all floats apart. Exit code 1: TensorFlow's error is printed. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { MOST = 64 }; /* inputs, outputs, dimensions and bytes of a number */

typedef struct { const char *at, *end; } Bytes;
typedef struct { char name[MOST], tensor[256]; int type, rank; } Entry; /* of a signature: TensorInfo */

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

/* The format of protocol buffers: a message is a list of fields, a number or bytes each. */
static uint64_t number(Bytes *bytes) {
  uint64_t value = 0;
  for (int shift = 0; bytes->at < bytes->end && shift < MOST; shift += 7) {
    unsigned char byte = *bytes->at++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  fail("MetaGraphDef", "damaged");
  return 0;
}

/* Moves to the next field and returns its number, 0 at the end. Its value is in `part` or `value`. */
static int next_field(Bytes *message, Bytes *part, uint64_t *value) {
  if (message->at == message->end) return 0;
  uint64_t key = number(message), size = 0;
  int kind = key & 7;
  if (kind == 0) *value = number(message);
  if (kind == 1 || kind == 5) size = kind == 1 ? 8 : 4;
  if (kind == 2) size = number(message);
  if (kind == 3 || kind == 4 || size > (uint64_t)(message->end - message->at)) fail("MetaGraphDef", "damaged");
  *part = (Bytes){message->at, message->at + size};
  message->at += size;
  return key >> 3;
}

static Bytes field(Bytes message, int wanted) {
  Bytes part;
  uint64_t value;
  for (int found; (found = next_field(&message, &part, &value));)
    if (found == wanted) return part;
  return (Bytes){NULL, NULL};
}

static void copy_text(char *text, size_t room, Bytes part) {
  snprintf(text, room, "%.*s", (int)(part.end - part.at), part.at);
}

static int by_name(const void *a, const void *b) { return strcmp(((Entry *)a)->name, ((Entry *)b)->name); }

/* The inputs (1) or outputs (2) of a SignatureDef, sorted by name. Returns how many. */
static int entries_of(Bytes signature, int side, Entry *entries) {
  int count = 0;
  Bytes pair, part;
  uint64_t value;
  for (int found; (found = next_field(&signature, &pair, &value));) {
    if (found != side || count == MOST) continue;
    Entry *entry = memset(&entries[count++], 0, sizeof(Entry));
    copy_text(entry->name, sizeof entry->name, field(pair, 1));
    Bytes info = field(pair, 2); /* TensorInfo: 1 name, 2 type, 3 shape, whose dimensions are 2 */
    copy_text(entry->tensor, sizeof entry->tensor, field(info, 1));
    for (Bytes rest = info; (found = next_field(&rest, &part, &value));)
      if (found == 2) entry->type = value;
    for (Bytes shape = field(info, 3); (found = next_field(&shape, &part, &value));) entry->rank += found == 2;
  }
  qsort(entries, count, sizeof(Entry), by_name);
  return count;
}

static Bytes find_signature(Bytes meta_graph, const char *wanted) {
  Bytes pair;
  uint64_t value;
  char name[MOST];
  for (int found; (found = next_field(&meta_graph, &pair, &value));) {
    if (found != 5) continue; /* MetaGraphDef.signature_def */
    copy_text(name, sizeof name, field(pair, 1));
    if (!strcmp(name, wanted)) return field(pair, 2);
  }
  fail(wanted, "the model has no such signature");
  return pair;
}

static TF_Output output_of(TF_Graph *graph, const Entry *entry) {
  char name[256];
  const char *colon = strrchr(entry->tensor, ':');
  snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - entry->tensor) : (int)sizeof name, entry->tensor);
  TF_Operation *operation = TF_GraphOperationByName(graph, name);
  if (!operation) fail(name, "the graph has no such operation");
  return (TF_Output){operation, colon ? atoi(colon + 1) : 0};
}

/* The values of an input among the arguments `INPUT=VALUE`, as a tensor. */
static TF_Tensor *tensor_of(const Entry *entry, int argc, char **argv) {
  const char **values = calloc(argc + 1, sizeof *values);
  int64_t count = 0;
  size_t length = strlen(entry->name);
  for (int i = 0; i < argc; i++)
    if (!strncmp(argv[i], entry->name, length) && argv[i][length] == '=') values[count++] = argv[i] + length + 1;
  if (entry->rank > 1 || (entry->rank == 0 && count != 1)) fail(entry->name, "expected once, as INPUT=VALUE");
  if (!count) fail(entry->name, "expected at least once, as INPUT=VALUE");
  size_t size = entry->type == TF_STRING ? sizeof(TF_TString) : TF_DataTypeSize(entry->type);
  TF_Tensor *tensor = TF_AllocateTensor(entry->type, &count, entry->rank, count * size);
  for (int64_t i = 0; i < count; i++) {
    char *place = (char *)TF_TensorData(tensor) + i * size, *end = "";
    if (entry->type == TF_STRING) {
      TF_StringInit((TF_TString *)place);
      TF_StringCopy((TF_TString *)place, values[i], strlen(values[i]));
    } else if (entry->type == TF_INT32) {
      long long value = strtoll(values[i], &end, 10);
      if (value < INT32_MIN || value > INT32_MAX) fail(entry->name, "expected an integer from -2147483648 to 2147483647");
      *(int32_t *)place = value;
    }
    else if (entry->type == TF_FLOAT) *(float *)place = strtof(values[i], &end);
    else fail(entry->name, "only strings, int32 and float32 are read");
    if (*end || end == values[i]) fail(entry->name, "expected a number");
  }
  free(values);
  return tensor;
}

/* Fails if an argument `INPUT=VALUE` is none of the inputs. */
static void check_names(const Entry *inputs, int count, int argc, char **argv) {
  for (int i = 0; i < argc; i++) {
    size_t length = strcspn(argv[i], "=");
    int known = 0;
    for (int j = 0; j < count; j++)
      known |= argv[i][length] && strlen(inputs[j].name) == length && !strncmp(argv[i], inputs[j].name, length);
    if (!known) fail(argv[i], "expected INPUT=VALUE with an input of the signature");
  }
}

static void print_tensor(const char *name, const TF_Tensor *tensor) {
  printf("%s [", name);
  for (int i = 0; i < TF_NumDims(tensor); i++) printf(i ? ", %" PRId64 : "%" PRId64, TF_Dim(tensor, i));
  printf("]");
  const void *data = TF_TensorData(tensor);
  for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++) {
    const TF_TString *text = (const TF_TString *)data + i;
    switch (TF_TensorType(tensor)) {
      case TF_STRING: printf("\t%.*s", (int)TF_StringGetSize(text), TF_StringGetDataPointer(text)); break;
      case TF_FLOAT: printf("\t%.9g", ((const float *)data)[i]); break;
      case TF_INT64: printf("\t%" PRId64, ((const int64_t *)data)[i]); break;
      case TF_INT32: printf("\t%" PRId32, ((const int32_t *)data)[i]); break;
      case TF_BOOL: printf("\t%s", ((const char *)data)[i] ? "true" : "false"); break;
      default: fail(name, "only strings, numbers and booleans are printed");
    }
  }
  printf("\n");
}

int main(int argc, char **argv) {
  TF_Status *status = TF_NewStatus();
  for (; argc > 2 && !strcmp(argv[1], "-l"); argc -= 2, argv += 2) {
    TF_LoadLibrary(argv[2], status); /* registers operations, for example those of a tokenizer */
    check(status, argv[2]);
  }
  if (argc < 3) fail("usage", "predict [-l OPERATIONS.so] FOLDER SIGNATURE INPUT=VALUE...");
  const char *tags[] = {"serve"};
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *meta_graph = TF_NewBuffer();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, meta_graph, status);
  check(status, argv[1]);

  const char *start = meta_graph->data;
  Bytes signature = find_signature((Bytes){start, start + meta_graph->length}, argv[2]);
  Entry inputs[MOST], outputs[MOST];
  int input_count = entries_of(signature, 1, inputs), output_count = entries_of(signature, 2, outputs);
  check_names(inputs, input_count, argc - 3, argv + 3);
  TF_Output from[MOST], to[MOST];
  TF_Tensor *given[MOST], *answers[MOST];
  for (int i = 0; i < input_count; i++) {
    from[i] = output_of(graph, &inputs[i]);
    given[i] = tensor_of(&inputs[i], argc - 3, argv + 3);
  }
  for (int i = 0; i < output_count; i++) to[i] = output_of(graph, &outputs[i]);
  TF_SessionRun(session, NULL, from, given, input_count, to, answers, output_count, NULL, 0, NULL, status);
  check(status, argv[2]);
  for (int i = 0; i < output_count; i++) print_tensor(outputs[i].name, answers[i]);

  for (int i = 0; i < input_count; i++) TF_DeleteTensor(given[i]);
  for (int i = 0; i < output_count; i++) TF_DeleteTensor(answers[i]);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteBuffer(meta_graph);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
