import { Client } from 'pg';
import { inject } from 'vitest';
import { onFileFinished } from './file-finished.ts';

const server = inject('postgres');

/** Runs `use` on a connection of its own, as every other program would. */
export async function asOtherClient<T>(address: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = await connectTo(address);
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Connections that nobody uses just now, to the databases of the server that all tests share. */
const idle = new Map<string, Client>();
let leavesAtEnd = false;

/**
 * The same for what only reads, and changes nothing of its session: it may be that of a reading before, because a test
 * looks again and again until something is there, and a connection costs the server more than a look.
 */
export async function asReader<T>(address: string, use: (client: Client) => Promise<T>): Promise<T> {
  const database = databaseOf(address);
  if (new URL(database).host !== URL.parse(server)?.host) return asOtherClient(address, use);
  const client = (await idleFor(address)) ?? (await connectTo(address));
  let isGood = false;
  try {
    const answer = await use(client);
    isGood = true;
    return answer;
  } finally {
    if (isGood && !idle.has(database)) keep(database, client);
    else await client.end();
  }
}

/** Null if there is none, or the server has ended it. */
async function idleFor(address: string): Promise<Client | null> {
  const database = databaseOf(address);
  const client = idle.get(database);
  if (client === undefined) return null;
  idle.delete(database);
  try {
    await lookInto(client, schemaOf(address));
    return client;
  } catch {
    await client.end();
    return null;
  }
}

function keep(database: string, client: Client): void {
  idle.set(database, client);
  if (leavesAtEnd) return;
  leavesAtEnd = true;
  onFileFinished(async () => {
    leavesAtEnd = false;
    for (const address of idle.keys()) await leave(address);
  });
}

/** Ends what is left open to a database that is to go. */
export async function leave(address: string): Promise<void> {
  const client = idle.get(databaseOf(address));
  idle.delete(databaseOf(address));
  await client?.end();
}

function databaseOf(address: string): string {
  const url = new URL(address);
  url.searchParams.delete('schema');
  return url.href;
}

async function connectTo(address: string): Promise<Client> {
  const client = new Client({ connectionString: databaseOf(address) });
  // It tells of an end by the server in the next query too.
  client.on('error', () => undefined);
  await client.connect();
  try {
    if (new URL(address).searchParams.has('schema')) await lookInto(client, schemaOf(address));
    return client;
  } catch (error) {
    await client.end();
    throw error;
  }
}

async function lookInto(client: Client, schema: string): Promise<void> {
  await client.query(`SET search_path TO "${schema}"`);
}

/** The schema that an address names. */
export function schemaOf(address: string): string {
  return new URL(address).searchParams.get('schema') ?? 'public';
}
