import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ReceiverLimits } from '../setup.ts';

/** What is known of a connection. */
interface ConnectionState {
  /** Requests that are not answered yet. */
  open: number;
  /** In a row, since the last one that was not refused. */
  refused: number;
  /** True once something on it was believed. */
  proven: boolean;
}

/** Keeps those who only take up room from keeping others out. */
export interface Connections {
  opened: (socket: Socket) => void;
  /** False where the connection asks for more at once than anybody honest does, and was cut. */
  begin(request: IncomingMessage, response: ServerResponse): boolean;
  believed(request: IncomingMessage): void;
  /** True where the connection should be closed with this answer. */
  refused(request: IncomingMessage): boolean;
  readonly count: number;
}

/**
 * Where all places are taken, the connection goes that has waited longest without ever having sent anything that was
 * believed, rather than the one that comes. A connection on which everything is refused is closed after a while.
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
      const standing = known.get(socket);
      if (standing === undefined || standing.open >= limits.pipelined) {
        socket.destroy();
        return false;
      }
      standing.open += 1;
      response.once('close', () => (standing.open -= 1));
      return true;
    },
    believed: ({ socket }) => {
      const standing = known.get(socket);
      if (standing === undefined) return;
      standing.refused = 0;
      standing.proven = true;
      unproven.delete(socket);
    },
    refused: ({ socket }) => {
      const standing = known.get(socket);
      if (standing === undefined) return true;
      standing.refused += 1;
      return standing.refused >= limits.refusals;
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
