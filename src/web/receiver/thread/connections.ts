import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ReceiverLimits } from '../setup.ts';

interface ConnectionState {
  /** Requests that are not answered yet. */
  open: number;
  /** In a row, since the last one that was not refused. */
  refused: number;
  /** True once something on it was believed. */
  proven: boolean;
}

/** Keeps connections that only take up room from keeping others out. */
export interface Connections {
  opened: (socket: Socket) => void;
  /** False if the connection asks for more at once than anybody honest does, and was cut. */
  begin(request: IncomingMessage, response: ServerResponse): boolean;
  believed(request: IncomingMessage): void;
  /** True if the connection should be closed with this answer. */
  refused(request: IncomingMessage): boolean;
  readonly count: number;
}

/**
 * If all places are taken, the connection goes that has waited longest without having sent anything that was believed,
 * rather than the new one. A connection on which everything is refused is closed after a while.
 */
export function guardConnections(limits: ReceiverLimits): Connections {
  const known = new Map<Socket, ConnectionState>();
  // In the order in which they came.
  const unproven = new Set<Socket>();

  return {
    opened: (socket) => {
      if (known.size >= limits.connections) (first(unproven) ?? socket).destroy();
      known.set(socket, { open: 0, refused: 0, proven: false });
      unproven.add(socket);
      socket.once('close', () => {
        known.delete(socket);
        unproven.delete(socket);
      });
    },
    begin: ({ socket }, response) => {
      const state = known.get(socket);
      if (state === undefined || state.open >= limits.pipelined) {
        socket.destroy();
        return false;
      }
      state.open += 1;
      response.once('close', () => (state.open -= 1));
      return true;
    },
    believed: ({ socket }) => {
      const state = known.get(socket);
      if (state === undefined) return;
      state.refused = 0;
      state.proven = true;
      unproven.delete(socket);
    },
    refused: ({ socket }) => {
      const state = known.get(socket);
      if (state === undefined) return true;
      state.refused += 1;
      return state.refused >= limits.refusals;
    },
    get count() {
      return known.size;
    },
  };
}

function first<T>(values: Iterable<T>): T | undefined {
  const [value] = values;
  return value;
}
