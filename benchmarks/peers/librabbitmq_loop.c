/* The practical limit: the C client, consume -> publish mandatory and confirmed -> ack.
 * usage: librabbitmq_loop HOST PORT VHOST USER PASSWORD SOURCE TARGET COUNT PREFETCH */
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define WINDOW 65536 /* confirms in flight never exceed the prefetch, which is below this */

static double wall(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static double cpu(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6 + usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6;
}

static void check(int good, const char *what) {
  if (!good) {
    fprintf(stderr, "librabbitmq_loop: %s failed\n", what);
    exit(1);
  }
}

static void check_reply(amqp_connection_state_t state, const char *what) {
  check(amqp_get_rpc_reply(state).reply_type == AMQP_RESPONSE_NORMAL, what);
}

int main(int argc, char **argv) {
  check(argc == 10, "usage");
  long count = atol(argv[8]), settled = 0;
  int prefetch = atoi(argv[9]);
  static uint64_t pending[WINDOW];
  uint64_t published = 0, oldest = 1;

  amqp_connection_state_t state = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(state);
  check(socket != NULL && amqp_socket_open(socket, argv[1], atoi(argv[2])) == AMQP_STATUS_OK, "connect");
  check(amqp_login(state, argv[3], 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, argv[4], argv[5]).reply_type ==
            AMQP_RESPONSE_NORMAL, "login");
  amqp_channel_open(state, 1);
  check_reply(state, "channel.open");
  amqp_confirm_select(state, 1);
  check_reply(state, "confirm.select");
  amqp_basic_qos(state, 1, 0, prefetch, 0);
  check_reply(state, "basic.qos");

  amqp_basic_properties_t properties;
  memset(&properties, 0, sizeof properties);
  properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG;
  properties.delivery_mode = 2;
  properties.message_id = amqp_cstring_bytes("m");

  double wall_start = wall(), cpu_start = cpu();
  amqp_basic_consume(state, 1, amqp_cstring_bytes(argv[6]), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
  check_reply(state, "basic.consume");

  while (settled < count) {
    amqp_frame_t frame;
    amqp_maybe_release_buffers(state);
    check(amqp_simple_wait_frame(state, &frame) == AMQP_STATUS_OK, "wait_frame");
    if (frame.frame_type != AMQP_FRAME_METHOD) continue;
    if (frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD) {
      amqp_basic_deliver_t *delivery = frame.payload.method.decoded;
      uint64_t tag = delivery->delivery_tag;
      amqp_message_t message;
      check(amqp_read_message(state, 1, &message, 0).reply_type == AMQP_RESPONSE_NORMAL, "read_message");
      check(amqp_basic_publish(state, 1, amqp_empty_bytes, amqp_cstring_bytes(argv[7]), 1, 0, &properties,
                               message.body) == AMQP_STATUS_OK, "basic.publish");
      published++;
      pending[published % WINDOW] = tag;
      amqp_destroy_message(&message);
    } else if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD) {
      amqp_basic_ack_t *confirm = frame.payload.method.decoded;
      uint64_t first = confirm->multiple ? oldest : confirm->delivery_tag;
      for (uint64_t tag = first; tag <= confirm->delivery_tag; tag++) {
        if (pending[tag % WINDOW] == 0) continue;
        check(amqp_basic_ack(state, 1, pending[tag % WINDOW], 0) == AMQP_STATUS_OK, "basic.ack");
        pending[tag % WINDOW] = 0;
        settled++;
      }
      while (oldest <= published && pending[oldest % WINDOW] == 0) oldest++;
    } else {
      check(0, "unexpected method");
    }
  }
  printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f}\n", wall() - wall_start, cpu() - cpu_start);
  amqp_connection_close(state, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(state);
  return 0;
}
