import { jsonAnswer, type Answer, type Draw, type Tricks } from './answer.ts';

/** Gives a token that nobody had before, of which it must never be read anywhere. */
type Issue = () => string;

/** What a healthy token endpoint answers. */
export function tokenAnswer(issue: Issue, now: number): Answer {
  return jsonAnswer('200 OK', { access_token: issue(), token_type: 'Bearer', expires_in: 3_600 }, now);
}

/** JSON texts. */
const LIVES = [
  '0',
  '-1',
  '1',
  '0.001',
  '1e308',
  '1e400',
  '"3600"',
  '"soon"',
  'null',
  '{}',
  '[]',
  'true',
  '9007199254740993',
];
const TOKENS = [
  '""',
  'null',
  '12345678',
  'true',
  '{}',
  '[]',
  '" "',
  '"a b"',
  '"line\\r\\nX-More: 1"',
  '"\\u0000"',
  '"\\ud800"',
];

/** A token endpoint that cannot be trusted; each text is the body of its answer. */
export const TOKEN_TRICKS: Tricks<(issue: Issue) => Answer> = {
  'token: expires': (draw) => (issue) =>
    body(draw, `{"access_token":"${issue()}","token_type":"bearer","expires_in":${draw.random.pick(LIVES)}}`),
  'token: no token': (draw) => () =>
    body(draw, `{"access_token":${draw.random.pick(TOKENS)},"token_type":"Bearer","expires_in":60}`),
  'token: long': (draw) => (issue) =>
    body(draw, `{"access_token":"${issue()}${'x'.repeat(draw.random.pick([3_000, 14_000]))}","token_type":"Bearer"}`),
  'token: very long': (draw) => (issue) =>
    body(draw, `{"access_token":"${issue()}${'x'.repeat(200_000)}","token_type":"Bearer"}`),
  'token: another type': (draw) => (issue) =>
    body(
      draw,
      `{"access_token":"${issue()}"${draw.random.pick(['', ',"token_type":"mac"', ',"token_type":7', ',"token_type":"DPoP"'])}}`,
    ),
  'token: backslashes': (draw) => (issue) =>
    body(
      draw,
      JSON.stringify({ access_token: `${issue()}${'\\'.repeat(draw.random.pick([8, 40]))}/x`, token_type: 'Bearer' }),
    ),
  'token: beyond the alphabet': (draw) => (issue) =>
    body(
      draw,
      JSON.stringify({
        access_token: `${issue()}${draw.random.pick(['"', "'", '<&>', '(.*)+$', '%00', ';,'])}`,
        token_type: 'Bearer',
      }),
    ),
  'token: refused': (draw) => () => ({
    ...body(draw, `{"error":"invalid_client","error_description":"${draw.asked.body.replaceAll(/["\\]/g, '')}"}`),
    status: draw.random.pick(['400 Bad', '401 No', '403 No', '404 No']),
    headers: [
      ['Content-Type', 'application/json'],
      ['WWW-Authenticate', draw.random.pick(['Basic', 'Bearer realm="\\"', ',,,', 'x'.repeat(4_000), ' = ='])],
    ],
  }),
  'token: failing': (draw) => () => ({
    ...body(draw, '{}'),
    status: draw.random.pick(['500 No', '503 No', '429 No', '302 Found']),
  }),
  'token: no JSON': (draw) => (issue) =>
    body(
      draw,
      draw.random.pick(['', 'null', '[]', '<html>', `access_token=${issue()}`, '['.repeat(50_000), '{"access_token":']),
    ),
};

function body({ now }: Draw, text: string): Answer {
  return jsonAnswer('200 OK', text, now);
}
