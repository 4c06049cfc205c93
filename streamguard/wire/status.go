package wire

import (
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// httpStatus returns the HTTP status for what the document says, 502 if it
// says nothing that is known. Text meant for people is never read.
func (p *problem) httpStatus() int {
	// A business code that stands where only business codes stand is never
	// taken for an HTTP status: MiniMax's 1008 is no server error.
	if business(p.base) {
		return p.tableStatus(minimaxStatus, p.base)
	}
	if business(p.number) {
		return p.tableStatus(baiduStatus, p.number)
	}
	if business(p.header) { // Xunfei
		return http.StatusBadGateway
	}
	numbers := [...]string{p.nested, p.status, p.topState, p.topCode}
	for _, s := range numbers {
		if n := numberStatus(s); n != 0 {
			return n
		}
	}
	for _, s := range [...]string{p.nested, p.topCode} {
		if m, ok := zhipuCodes[s]; ok {
			return m.status
		}
	}
	if n, ok := baiduStatus[p.topCode]; ok {
		return n
	}
	for s := range p.labels() {
		if m := p.words.meaning(s); m.status != 0 {
			return m.status
		}
	}
	return http.StatusBadGateway
}

// labels yields the words that say what kind of error the document tells of,
// the most specific one first.
func (p *problem) labels() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range [...]string{p.nested, p.kind, p.exception, p.status, p.topCode, p.topType, p.topState} {
			if s != "" && !yield(s) {
				return
			}
		}
		for _, s := range p.extra {
			if !yield(s) {
				return
			}
		}
	}
}

// numberStatus returns the HTTP status that a number names, 0 if it is none of
// an error. Some gateways write it as a float: 429.0.
func numberStatus(s string) int {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 400 || n > 599 || n != math.Trunc(n) {
		return 0
	}
	return int(n)
}

// tableStatus looks a business code up in its vendor's table and in the words
// that were added.
func (p *problem) tableStatus(t map[string]int, code string) int {
	if n, ok := t[code]; ok {
		return n
	}
	if m := p.words.meaning(code); m.status != 0 {
		return m.status
	}
	return http.StatusBadGateway
}

// minimaxStatus holds MiniMax's base_resp.status_code.
var minimaxStatus = map[string]int{
	"1002": http.StatusTooManyRequests,
	"1039": http.StatusTooManyRequests,
	"1004": http.StatusUnauthorized,
	"1008": http.StatusPaymentRequired,
	"1026": http.StatusBadRequest,
	"2013": http.StatusBadRequest,
}

// zhipuCodes holds Zhipu's codes: concurrency, overload, a plan's limit, no
// balance.
var zhipuCodes = map[string]meaning{
	"1302": {http.StatusTooManyRequests, LimitConcurrency},
	"1305": overloaded,
	"1308": quotaSpent,
	"1113": unpaid,
}

// baiduStatus holds Baidu's codes for rate limits.
var baiduStatus = map[string]int{
	"18":     http.StatusTooManyRequests,
	"336501": http.StatusTooManyRequests,
	"336502": http.StatusTooManyRequests,
}

// A meaning is what a word stands for.
type meaning struct {
	status int       // 0: none of its own
	limit  LimitKind // "": it tells of none
}

var (
	rateLimited = meaning{http.StatusTooManyRequests, LimitRate}
	quotaSpent  = meaning{http.StatusTooManyRequests, LimitQuota}
	unpaid      = meaning{http.StatusTooManyRequests, LimitBilling}
	overloaded  = meaning{http.StatusServiceUnavailable, LimitConcurrency}
	clientFault = meaning{status: http.StatusBadRequest}
	down        = meaning{status: http.StatusServiceUnavailable}
)

// exact holds the words whose meaning is all their own.
var exact = map[string]meaning{
	"resourceexhausted": rateLimited, "modelnotreadyexception": rateLimited,
	"slowdown": overloaded, "unavailable": down,
	"serviceunavailable": down, "serviceunavailableerror": down, "serviceunavailableexception": down,
	"timeouterror": {status: 504}, "deadlineexceeded": {status: 504}, "gatewaytimeout": {status: 504},
	"authenticationerror": {status: 401}, "invalidapikey": {status: 401}, "unauthenticated": {status: 401},
	"permissionerror": {status: 403}, "permissiondenied": {status: 403},
	"notfounderror": {status: 404}, "modelnotfound": {status: 404}, "notfound": {status: 404},
	"invalidrequesterror": clientFault, "invalidargument": clientFault, "contextlengthexceeded": clientFault,
	// Of AWS.
	"modeltimeoutexception": {status: 408},
	"modelerrorexception":   {status: 424}, "modelstreamerrorexception": {status: 424},
	"internalserverexception": {status: 500}, "internalfailure": {status: 500}, "internalfailureexception": {status: 500},
	"validationexception": clientFault, "serializationexception": clientFault,
	"accessdeniedexception": {status: 403}, "unrecognizedclientexception": {status: 403},
	"expiredtokenexception": {status: 403}, "invalidsignatureexception": {status: 403}, "missingauthenticationtokenexception": {status: 403},
	"resourcenotfoundexception": {status: 404}, "unknownoperationexception": {status: 404},
}

// A pattern gives a meaning to every word that holds it. Closed lists age, and
// vendors build their words of the same few parts.
type pattern struct {
	holds string
	meaning
}

// patterns are looked at in order: what is limited by rate clears by itself,
// whatever quota it names (DashScope's Throttling.RateQuota), and money comes
// before the quota that it buys. One without a status of its own leaves that to
// the next. This table is the only one of words that tell of limits.
var patterns = [...]pattern{
	{"concurren", meaning{limit: LimitConcurrency}},
	{"ratelimit", rateLimited}, {"toomanyrequests", rateLimited}, {"throttl", rateLimited},
	{"billing", unpaid}, {"credit", unpaid}, {"spendlimit", unpaid}, {"insufficientquota", unpaid},
	{"insufficientbalance", unpaid}, {"accountbalance", meaning{limit: LimitBilling}},
	{"quota", quotaSpent}, {"usagelimit", quotaSpent}, {"perday", meaning{limit: LimitQuota}},
	{"overload", overloaded}, {"queueexceeded", overloaded}, {"capacity", overloaded},
	{"toolarge", meaning{status: http.StatusRequestEntityTooLarge}},
	{"policy", clientFault}, {"contentfilter", clientFault},
	{"invalid", clientFault}, {"malformed", clientFault},
}

// ownFaults are parts of words that blame the answer, not the request.
var ownFaults = [...]string{
	"malformedmodel", "malformedtool", "malformedfunctioncall", "malformedoutput", "malformedresponse", "malformedupstream",
	"invalidmodeloutput", "invalidmodelresponse", "invalidresponsefrom", "invalidupstream", "invalidserver", "upstreaminvalid",
	"upstreamresponse", "backendresponse", "gatewayresponse", "providerresponse",
}

// builtIn returns the meaning of a word in its normal form.
func builtIn(word string) (m meaning) {
	if m, ok := exact[word]; ok {
		return m
	}
	for i := range patterns {
		p := &patterns[i]
		if !strings.Contains(word, p.holds) || p.meaning == clientFault && holdsOne(word, ownFaults[:]) {
			continue
		}
		if m.limit == "" {
			m.limit = p.limit
		}
		if p.status != 0 {
			m.status = p.status
			break
		}
	}
	return m
}

// meaning returns what a code, type or status word of the document stands for.
func (p *problem) meaning(s string) meaning {
	if m, ok := zhipuCodes[s]; ok {
		return m
	}
	return p.words.meaning(s)
}
