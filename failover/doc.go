// Package failover lets the next provider or model answer when one is down,
// slow, out of quota or gone. Most callers should use
//
//	chain, err := failover.NewChain(failover.DefaultPolicy(), targets...)
//	client := chain.Client()
//
// A [Chain] is an [http.RoundTripper]: it fits an http.Client, an SDK, and
// another chain as a [Target]'s Transport. Each target has a stack of its own,
// usually a [resilience.Transport], whose retries end before the chain moves
// on. A [Router] dispatches requests to chains by the model that they name.
// [Call] runs the same rules over a function, for code that calls different
// SDKs.
//
// # When a chain moves on
//
// The first target that was really tried decides. Its transport failures and
// timeouts always make the chain move on, and so do the statuses of
// [Policy.RetryOnStatuses] and the errors that match [Policy.RetryOnErrors];
// any other answer goes straight back. Once the chain has moved on it takes
// any failure for a reason to go on, until a success, the last target, the
// cap, a cancelled caller or no time left. The caller gets the answer of the
// last target tried. A target is passed over, at no cost and without being an
// attempt, while its breaker is open, while it is not available, or for good
// where it is disabled.
//
// A breaker is never bypassed: where all are open, the caller gets the
// rejection with the shortest wait. Where the targets are merely not available,
// the first of them is tried after all, so that the caller gets an honest
// answer.
//
// # Patience
//
// A target's retries come before the next target, but nobody waits where another
// could answer: while another target could be tried now, the waits on this one,
// its stack's own backoff and what the upstream asks for alike, may add up to
// [Policy.Patience]. A wait that would exceed it is not begun, the chain moves
// on, and the attempt says so ([Attempt.MovedOn]). A primary that answers 429
// with Retry-After: 20 thus costs no time, and one with Retry-After: 2 is obeyed
// once. The 3.5 s of the default policy are just enough for two retries of the
// default backoff, since most failures are over by then and a second target is
// no better than a first one that has recovered.
//
// Whether another target could be tried is found out anew before each wait: a
// target whose breaker is open, that is not available, disabled or tried, and
// one beyond MaxAttempts is none. So the last target that is left keeps all its
// retries, and a call that cannot fail over, or an answer that would not move it
// on, is never shortened. In nested chains the targets of the chains above
// count, and of several patiences the shortest decides. The stacks ask through
// [resilience.Patience]; a layer between that returns early or sends again is no
// trouble. For [Call] there is no patience: what a function sends are calls of
// its own.
//
// Where every target's breaker lets nothing through, [Policy.WaitFor] may have
// the call wait for the first of them instead of being rejected: a short outage
// of everything then costs time and no answers. It is off by default, since an
// interactive caller is better served by an error at once. The calls that wait
// come back spread over a tenth of their wait, and one of them is the probe.
//
// # Bound requests
//
// Some requests name what only one account of a provider knows: an answer before
// (previous_response_id, conversation, previous_interaction_id), cachedContent,
// continuationToken, a container, a file, or reasoning that only its vendor can
// read (encrypted_content, a thinking block's signature). Another account
// answers them with an error that says nothing of the outage, so they go to
// targets with the same provider and the same credentials alone; others are
// passed over with the reason "bound". The account is that of the chain's first
// enabled target, or of the target that the request names, whatever the strategy:
// which one gave the answer before, a chain cannot know. Only the documented
// places count, never the text of a message or the schema of a tool. What a
// Rewrite or a transport adds to a request is not seen; [BoundIgnore] switches
// the rule off.
//
// # Affinity
//
// [Affinity] has calls with a common key begin at the target that answered the
// last of them, since that one has their prompt in its cache. It changes where a
// walk begins and nothing else: what passes a target over still does, and an
// answer of a target that the strategy does not put first is still marked as a
// backup's (but with weights, where any may be first). A pin ends where the chain
// moves on from the target's answer, or would if it could, and where a stream
// of it breaks off; it is set by the next success. In a nested chain each keeps
// its own pins; the copies of a chain in a Router share them.
//
// # Which calls fail over
//
// Only calls that generate text fail over. Embeddings, calls of an unknown
// format and requests whose body cannot be sent twice go to one target. The
// vectors of two models must not mix: embeddings go to targets of the first
// one's model alone, whatever the strategy. A stream fails over while nothing of
// it has reached the caller; that is what the target's own stack decides by
// holding it back.
//
// # What a target gets
//
// A request of its own: the caller's, with the target's URL, headers and
// query, its model in place of the caller's in the body (and in the path,
// where the format has it there), and not one other byte changed. Where the
// target has headers of its own or another host, the caller's credentials are
// taken off first: every header and query key that says by its name that it is
// one, such as X-Litellm-Api-Key. Only the chain's first target gets the Idempotency-Key:
// the same key with another body is an error at most upstreams.
//
// # Whose call a request is
//
// A chain that gets the request of another chain's target belongs to that
// chain's call: the targets are in one list, and each is tried once. The same
// holds behind layers that clone the request or wrap its body, as tracing does,
// and for a layer that sends it again: then the chain begins anew. Every other
// request under a target's context is a call of its own, with its own list:
// those of a function in [Call], the look-up of a transport, and what a layer
// makes of a request by giving it another method, URL or length. Transports
// that make calls within calls are stopped three deep.
//
// # What happened
//
// [AttemptsOf] lists the targets that were tried and passed over, from a
// response; [Error] has the list where no target gave one; [WithTrace] serves
// code that sees neither. [FromBackup] marks an answer that a cache should not
// keep for the model that was asked for.
package failover
