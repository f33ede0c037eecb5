import { request as httpRequest } from 'node:http';

/** A request as a stranger sends it, header names as they are given. */
export interface RawRequest {
  method: string;
  path: string;
  headers: Readonly<Record<string, string>>;
  body: string | Buffer;
}

export interface Answered {
  status: number;
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  body: string;
}

/** Sends it on a connection of its own; rejects where no answer comes. */
export function rawRequest(host: string, port: number, { body, ...request }: RawRequest): Promise<Answered> {
  const { promise, resolve, reject } = Promise.withResolvers<Answered>();
  const sent = httpRequest({ host, port, ...request, agent: false }, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() }),
    );
  });
  sent.on('error', reject).end(body);
  return promise;
}
