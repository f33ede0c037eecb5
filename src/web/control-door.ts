import type { Clock } from '../model/clock.ts';
import { waitAtMost } from '../model/waiting.ts';
import { controlRequestSchema, type Control, type ControlRequest } from '../serve/controls/control-request.ts';
import { pagePathOf } from './page-path.ts';
import { forgeryOf, type Forgery } from './forged-request.ts';
import { createFormTokens } from './form-token.ts';
import { toldAnswers, type Told } from './told-answers.ts';

/** The path of the page's one form. */
export const CONTROL_PATH = '/control';

/** Why a form is not obeyed. */
export type FormRefusal = Forgery | 'no_form' | 'no_token' | 'wrong_token' | 'wrong_request';

export interface ControlDoorOptions {
  control: Control;
  /** Name of those who may see the pages. */
  user: string;
  /** Names under which browsers know the page, besides the one that they ask for. */
  hosts: readonly string[];
  clock: Clock;
  /** Called for each request that is not obeyed. */
  refused: (reason: FormRefusal) => void;
}

/** The outcome of a form: where its reader goes on, or why nothing was done. */
export type FormOutcome = { to: string } | { refused: FormRefusal };

/** Takes the forms of the page, of a user who was let in. */
export interface ControlDoor {
  /** For the form of a page. */
  token(): string;
  /** Does what an own form asks for; resolves within seconds. */
  take(headers: Headers, body: string): Promise<FormOutcome>;
  /** The result of an earlier form, by the id in the address of the page. */
  told(id: string): Told | null;
}

/** Before the receiver gives a page up. */
const PATIENCE_MS = 4_000;

export function createControlDoor(options: ControlDoorOptions): ControlDoor {
  const { user, hosts, clock, control } = options;
  const tokens = createFormTokens();
  const answers = toldAnswers(clock);

  async function carryOut(request: ControlRequest): Promise<Told> {
    const asked = control(request, { via: 'page', by: user });
    const answer = await waitAtMost(clock, PATIENCE_MS, asked);
    if (answer !== null) return answer.value;
    return { done: true, message: `${request.action}: asked for, and still going on`, hint: null };
  }

  return {
    token: () => tokens.give(user),
    told: (id) => answers.find(user, id),
    take: async (headers, body) => {
      const forgery = forgeryOf(headers, hosts);
      const form = forgery === null ? formOf(body, (token) => tokens.isOurs(token, user)) : forgery;
      if (typeof form === 'string') {
        options.refused(form);
        return { refused: form };
      }
      const id = answers.keep(user, await carryOut(form.request));
      return { to: `${form.back}?told=${id}` };
    },
  };
}

interface Form {
  request: ControlRequest;
  /** Address of the page that the form stands on, relative to the form's own. */
  back: string;
}

/** Reads a form, which holds each of its fields once. */
function formOf(body: string, isOurs: (token: string) => boolean): Form | FormRefusal {
  const fields = new URLSearchParams(body);
  const [token, request, back] = ['token', 'request', 'back'].map((name) => fields.getAll(name));
  if (fields.size === 0) return 'no_form';
  if (token === undefined || token.length !== 1) return 'no_token';
  if (!isOurs(token[0] ?? '')) return 'wrong_token';
  const asked = requestOf(request?.length === 1 ? (request[0] ?? '') : '');
  return asked === null ? 'wrong_request' : { request: asked, back: backTo(back?.[0] ?? '') };
}

function requestOf(text: string): ControlRequest | null {
  try {
    return controlRequestSchema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}

/** Relative, because a proxy may show the page below a path of its own. */
function backTo(path: string): string {
  const page = pagePathOf(`/${path}`);
  return page === null || page.page === 'overview' ? './' : path;
}
