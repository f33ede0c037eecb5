// The HTTP endpoint of the control socket, through which commands control a running `serve`.
import { type Control, type ControlAnswer, controlBodySchema, failed, refused } from '../controls/control-request.ts';
import { jsonResponse } from './responses.ts';

/** The path on the control socket to which commands send their requests, in JSON. */
export const CONTROL_PATH = '/control';

/**
 * Answers a command on the control socket: a line with the answer, and one more when the syncs that it started have
 * ended.
 */
export async function answerCommand(control: Control, body: string | null): Promise<Response> {
  const { data, error } = controlBodySchema.safeParse(parsed(body ?? ''));
  if (data === undefined) {
    const faults = error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
    const hint = 'use the commands of the same version of content-sync as the running serve';
    return answerResponse(refused('serve_version', `not understood: ${faults.join('; ').slice(0, 500)}`, hint));
  }
  const { answer, report } = await control(data.request, { via: 'command', by: data.by });
  if (report === null) return answerResponse(answer);
  async function* lines(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(`${JSON.stringify(answer)}\n`);
    const end = await report?.then(
      (ended) => ({ report: ended }),
      (error: unknown) => ({ failed: failed(error) }),
    );
    yield Buffer.from(`${JSON.stringify(end)}\n`);
  }
  return new Response(lines(), { headers: { 'content-type': 'application/x-ndjson' } });
}

function answerResponse(answer: ControlAnswer): Response {
  return jsonResponse(answer.done ? 200 : answer.code === 'serve_version' ? 400 : 409, answer, 0);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
