// `content-sync config probe`: finds a profile for an unknown service by experiment, and prints it with its evidence.
// Example: `probe https://cms.example.com --path /posts > cms.profile.yaml`. `init` uses the same options, address and
// experiments.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import { parse } from 'yaml';
import { defaultNetwork } from '../config/network.ts';
import { isLoopback } from '../config/warehouse-address.ts';
import { ConfigError, messageOf } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { visibleText } from '../model/visible-text.ts';
import { type ProbeOptions, type ProbeResult, probeService } from '../probe/probe-service.ts';
import { toYaml } from '../probe/profile.ts';
import { type CliContext, EXIT_CODES, print, wholeNumber } from './command/context.ts';

/** The options of `probe` and `init` about the credential and the description of a service. */
export interface ServiceOptions {
  credentialEnv?: string;
  user?: string;
  auth?: string;
  openapi?: string;
  path?: string[];
}

interface ProbeFlags extends ServiceOptions {
  out?: string;
  force?: true;
  requests?: number;
  allowInsecure?: true;
}

export function serviceOptions(command: Command): Command {
  const form = 'How the credential is sent: bearer, basic, header:<name> or query:<name> (default: detected)';
  return command
    .option('--credential-env <name>', 'Environment variable that contains the key, token or password')
    .option('--user <name>', 'User name or client id, for credentials that have one')
    .option('--auth <form>', form)
    .option('--openapi <file or path>', 'OpenAPI document: a file, or a path or URL of the service');
}

/** Exit code 3 if a line of the profile could not be verified. */
export function probeCommand(context: CliContext): Command {
  return serviceOptions(new Command('probe').argument('<url>', 'Root of the API, such as https://cms.example.com/api'))
    .option('--path <path>', 'Listing below it; repeatable', (path: string, before: string[]) => [...before, path], [])
    .option(
      '--requests <count>',
      'Max requests (default: 60 for the service, and 25 for each listing)',
      wholeNumber('--requests', 5, 1_000),
    )
    .option('--out <file>', 'Write the profile to this file instead of stdout')
    .option('--force', 'Replace an existing file')
    .option('--allow-insecure', 'Send the credential over plain http to other machines too')
    .action(async (url: string, flags: ProbeFlags) => {
      context.errorsAsText = true;
      const out = outFile(context, flags);
      const result = await probeWith(context, url, flags);
      const text = toYaml(result);
      if (out === null) print(context, text.trimEnd());
      else writeFileSync(out, text);
      writeStatus(context, formatSummary(result, flags.out));
      context.exit(result.isProved ? EXIT_CODES.ok : EXIT_CODES.partial);
    });
}

async function probeWith(context: CliContext, url: string, flags: ProbeFlags): Promise<ProbeResult> {
  const fault = addressFault(url);
  if (fault !== undefined) throw usage(fault, 'name listings with --path, and the credential with --credential-env');
  const baseUrl = new URL(withScheme(url));
  const credential = readCredential(context, flags);
  if (credential !== null && flags.allowInsecure !== true) {
    refuseInsecure(baseUrl, 'where the network is safe, add --allow-insecure');
  }
  writeStatus(context, `sending requests to ${baseUrl.origin}, one after the other; nothing is changed there`);
  const { auth, path: paths, requests: maxRequests } = flags;
  return runProbe(context, flags.openapi, { baseUrl, credential, auth, paths, maxRequests });
}

/** What is wrong with the address of an API; undefined if nothing is. */
export function addressFault(address: string): string | undefined {
  const url = URL.parse(withScheme(address));
  // A misspelt scheme would be read as a host with a port.
  const isMisspelt = /^[a-z][a-z+.-]*:(?!\/\/|\d)/i.test(address);
  const isHttp = !isMisspelt && (url?.protocol === 'https:' || url?.protocol === 'http:');
  if (isHttp && url.username + url.password + url.search + url.hash === '') return undefined;
  return 'expected an address such as https://cms.example.com/api, without user name or password, and without parameters';
}

/** Adds a missing scheme: http for this machine, https for any other. */
export function withScheme(address: string): string {
  if (/^[a-z]+:\/\//i.test(address)) return address;
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:|\/|$)/.test(address) ? `http://${address}` : `https://${address}`;
}

/** Probes the service in the environment of a command. `openapi` is a file, or a path or URL of the service. */
export function runProbe(
  context: CliContext,
  openapi: string | undefined,
  options: Omit<ProbeOptions, 'clock' | 'secrets' | 'signal'>,
): Promise<ProbeResult> {
  const { cwd, env, clock, secrets, signal } = context;
  const document = openapi === undefined ? {} : readOpenapi(context, openapi, options.baseUrl);
  const common = { network: defaultNetwork(cwd, env), clock, secrets, signal, progress: progressOn(context) };
  return probeService({ ...options, ...document, ...common });
}

/** Throws `ConfigError` if others on the network could read a credential that is sent there. */
export function refuseInsecure({ protocol, hostname }: URL, otherwise: string): void {
  if (protocol === 'https:' || isLoopback(hostname)) return;
  throw usage('the credential would be sent unencrypted', `begin the address with https://; ${otherwise}`);
}

function readCredential({ env }: CliContext, { credentialEnv, user, auth }: ProbeFlags) {
  if (credentialEnv === undefined && user === undefined && auth === undefined) return null;
  if (credentialEnv === undefined)
    throw usage('there is no credential', 'name the variable that holds it with --credential-env NAME');
  const secret = env[credentialEnv]?.trim() ?? '';
  if (secret === '') throw usage(`the environment has no variable ${credentialEnv}, or it is empty`);
  return { secret, user };
}

/** Reads an OpenAPI document from a file, or returns its path at the service. */
function readOpenapi({ cwd }: CliContext, name: string, { origin }: URL) {
  const isUrl = /^https?:/.test(name);
  if (isUrl && URL.parse(name)?.origin !== origin)
    throw usage(`the document ${name} is not at ${origin}`, 'save it to a file, and name that');
  const file = path.resolve(cwd, name);
  if (isUrl || (!existsSync(file) && name.startsWith('/'))) return { openapiPath: name };
  if (!existsSync(file))
    throw usage(`there is no file ${name}`, 'name a file, or a path of the service that begins with /');
  try {
    const openapi: JsonValue = parse(readFileSync(file, 'utf8'));
    return { openapi };
  } catch (error) {
    throw usage(`${name} is neither JSON nor YAML: ${messageOf(error).split('\n')[0]}`);
  }
}

function outFile({ cwd }: CliContext, { out, force }: ProbeFlags): string | null {
  if (out === undefined) return null;
  const file = path.resolve(cwd, out);
  if (existsSync(file) && force !== true) throw usage(`${out} exists already`, 'choose another file, or add --force');
  if (!existsSync(path.dirname(file))) throw usage(`there is no folder for ${out}`);
  return file;
}

function usage(message: string, hint?: string): ConfigError {
  return new ConfigError('usage', message, hint === undefined ? {} : { hint });
}

function writeStatus({ stderr }: CliContext, text: string): void {
  // Overwrites the progress line.
  const clear = stderr.isTTY === true ? '\r\u001b[K' : '';
  stderr.write(`${clear}${visibleText(text)}\n`);
}

/** Shows the progress in one line that is overwritten, on a terminal only. */
function progressOn({ stderr }: CliContext): NonNullable<ProbeOptions['progress']> {
  if (stderr.isTTY !== true) return () => undefined;
  return (requested, { spent, maxRequests, about }) => {
    const line = visibleText(`${spent}/${maxRequests} ${about}: ${requested}`).slice(0, (stderr.columns ?? 80) - 1);
    stderr.write(`\r\u001b[K${line}${spent === maxRequests ? '\n' : ''}`);
  };
}

function formatSummary(
  { resources, requests, isProved, findings, lost }: ProbeResult,
  out: string | undefined,
): string {
  const found = resources.map(({ name, seen, total }) => `${name} (${total ?? `${seen} or more`})`).join(', ');
  const unverified = findings.filter(({ proved }) => !proved).length + lost.length;
  const verified = isProved ? 'every line was verified' : `${unverified} lines were not verified: see the comments`;
  return `found ${found} with ${requests} requests; ${verified}${out === undefined ? '' : `; written to ${out}`}`;
}
